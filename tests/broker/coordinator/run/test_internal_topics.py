"""The internal topics, as a broker makes them that has the settings of a larger cluster."""

from __future__ import annotations

from confluent_kafka import Producer

from oncelog.client.admin import Admin
from oncelog.client.cluster import Cluster
from oncelog.testing import Broker

SETTINGS = {"transaction.state.log.replication.factor": 3, "transaction.state.log.min.isr": 2}


def test_one_broker_is_enough_for_the_log_of_transactions() -> None:
    with Broker(SETTINGS) as broker, Cluster(broker.bootstrap_servers) as cluster:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "x", "log_level": 0})
        producer.init_transactions(60)
        (topic,) = Admin(cluster).describe_topics("__transaction_state")
        assert {len(partition.replicas) for partition in topic.partitions} == {1}
        configs = {config.name: config.value for config in Admin(cluster).describe_configs("__transaction_state")}
        assert (configs["min.insync.replicas"], configs["unclean.leader.election.enable"]) == ("1", "false")
