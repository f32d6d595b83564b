"""What the sink wants to know about a topic: how many partitions, and how large a batch may be."""

from __future__ import annotations

from oncelog.client.admin import Admin
from oncelog.client.cluster import Backoff, Cluster
from oncelog.client.errors import ClientError
from oncelog.named_tuple import NamedTuple
from oncelog.protocol.errors import KafkaError

MESSAGE_SIZE_BYTES_MAX = 1_048_588
"""Kafka's default for the largest batch of a topic."""


class TopicPlan(NamedTuple):
    partition_count: int
    message_size_bytes_max: int = MESSAGE_SIZE_BYTES_MAX


def describe_topic(cluster: Cluster, name: str, patience_ms: int) -> TopicPlan:
    """Raises UnknownTopic for a topic that is not there; the sink never creates one.

    The client itself gives up on a topic after a moment, for the sake of people who mistype its name; a broker
    that is away, and a leader that is not elected yet, are waited for.
    """
    backoff = Backoff(patience_ms)
    while True:
        try:
            return TopicPlan(len(cluster.topic(name).partitions), _message_size_bytes_max(cluster, name))
        except (ClientError, KafkaError) as error:
            if not cluster.may_pass(error) or not backoff.wait():
                raise


def _message_size_bytes_max(cluster: Cluster, name: str) -> int:
    """A user who may write need not be allowed to read the configuration; then Kafka's default has to do."""
    try:
        configs = {config.name: config.value for config in Admin(cluster).describe_configs(name)}
    except (ClientError, KafkaError) as error:
        if cluster.may_pass(error):
            raise
        return MESSAGE_SIZE_BYTES_MAX
    return int(configs.get("max.message.bytes") or MESSAGE_SIZE_BYTES_MAX)
