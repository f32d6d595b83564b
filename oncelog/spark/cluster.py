"""The client's view of a cluster, with what a sink needs: transactions of the first generation, and patience.

Apache Kafka 4 offers a second generation of transactions (KIP-890) through higher versions of the same requests.
With it a partition joins the transaction at its first Produce, and each end bumps the epoch. The sink keeps to the
first generation, which every broker since 2.5 has: its driver names the partitions, and decides when to bump.
"""

from __future__ import annotations

from collections.abc import Collection

from oncelog.client.addresses import Address
from oncelog.client.cluster import Cluster, TopicPartition
from oncelog.client.connection import Connection
from oncelog.client.errors import BrokerUnavailable, ClientError
from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.schema import Versions
from oncelog.spark.options import SinkOptions

VERSIONS_LAST = {
    ApiKey.PRODUCE: 11,
    ApiKey.ADD_PARTITIONS_TO_TXN: 3,
    ApiKey.END_TXN: 4,
    ApiKey.TXN_OFFSET_COMMIT: 4,
    ApiKey.OFFSET_FETCH: 7,
    ApiKey.FIND_COORDINATOR: 3,
}
"""The last versions of the first generation; for the two lookups, the last that ask about one key only."""

_NOT_HERE = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.TOPIC_AUTHORIZATION_FAILED)


class SinkCluster(Cluster):
    """Waits for a broker that is being restarted, where an interactive client would give up at once."""

    @classmethod
    def open(cls, options: SinkOptions) -> SinkCluster:
        return cls(
            options.bootstrap,
            client_id=options.client_id,
            timeout_ms=options.request_timeout_ms,
            security=options.security,
        )

    def __enter__(self) -> SinkCluster:
        return self

    def identify(self, patience_ms: int) -> str:
        """The id that the cluster's brokers report; asked for once."""
        if not self.cluster_id:
            self.retry(lambda: self.refresh([]), patience_ms=patience_ms)
        return self.cluster_id

    def may_pass(self, error: ClientError | KafkaError) -> bool:
        """The code stands for a broker that is missing from the metadata, to which it comes back."""
        away = isinstance(error, KafkaError) and error.code == ErrorCode.BROKER_NOT_AVAILABLE
        return away or isinstance(error, BrokerUnavailable) or super().may_pass(error)

    def existing(self, partitions: Collection[TopicPartition], patience_ms: int) -> list[TopicPartition]:
        """Those that this cluster has, and shows to this user; one without a leader counts, it will get one."""
        if not partitions:
            return []
        found = self.retry(lambda: self.refresh({topic for topic, _ in partitions}), patience_ms=patience_ms)
        unsure = {name for name, topic in found.items() if topic.error_code and topic.error_code not in _NOT_HERE}
        here = {(name, each.partition_index) for name, topic in found.items() for each in topic.partitions}
        return [where for where in partitions if where in here or where[0] in unsure]

    def _connect(self, address: Address) -> Connection:
        connection = super()._connect(address)
        for api, last in VERSIONS_LAST.items():
            theirs = connection.versions.get(api)
            if theirs is not None and theirs.last > last:
                connection.versions[api] = Versions(theirs.first, last)
        return connection
