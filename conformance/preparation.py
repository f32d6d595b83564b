"""What the harness itself sets on a broker, over the wire: topics for clients that make none, and quotas."""

from __future__ import annotations

from contextlib import closing, contextmanager
from functools import partial
from typing import TYPE_CHECKING

from conformance.client import ClientError, wait_until
from conformance.wire.link import Link
from oncelog.protocol.messages import alter_client_quotas as quotas
from oncelog.protocol.messages import create_topics as topics
from oncelog.protocol.messages import find_coordinator, init_producer_id, list_offsets, offset_fetch

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_CREATE_TOPICS_VERSION = 7
_ALTER_QUOTAS_VERSION = 1
_LIST_OFFSETS_VERSION = 7
_LATEST = -1
_COORDINATORS = (0, 1)
"""Of groups and of transactions."""


def create_topic(address: str, name: str, *, partitions: int = 1, configs: Mapping[str, str] | None = None) -> None:
    topic = topics.CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=1,
        configs=[topics.CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()],
    )
    with closing(Link(address)) as link:
        (result,) = link.ask(topics.CreateTopicsRequest(topics=[topic]), _CREATE_TOPICS_VERSION).topics
    if result.error_code:
        raise ClientError(f"error code {result.error_code}")


def wait_for_end(address: str, topic: str, offset: int) -> None:
    """Kafka answers the end of a transaction before its markers are written; what follows must come behind them.

    Not by the client: some can only be told where committed records end.
    """
    partition = list_offsets.ListOffsetsPartition(partition_index=0, timestamp=_LATEST)
    wanted = list_offsets.ListOffsetsTopic(name=topic, partitions=[partition])
    request = list_offsets.ListOffsetsRequest(replica_id=-1, topics=[wanted])

    def has_come() -> bool:
        (found,) = link.ask(request, _LIST_OFFSETS_VERSION).topics
        return bool(found.partitions[0].offset == offset)

    with closing(Link(address)) as link:
        wait_until(has_come, f"{topic} ends at {offset}")


def warm_up(address: str) -> None:
    """Makes the internal topics and waits for their coordinators: the first group of a broker waits longer."""
    with closing(Link(address)) as link:
        group = offset_fetch.OffsetFetchRequestGroup(group_id="warm-up", topics=[])
        offsets = offset_fetch.OffsetFetchRequest(groups=[group])
        producer = init_producer_id.InitProducerIdRequest(transactional_id="warm-up", transaction_timeout_ms=1000)
        for key_type in _COORDINATORS:
            request = find_coordinator.FindCoordinatorRequest(key_type=key_type, coordinator_keys=["warm-up"])
            wait_until(partial(_has_coordinator, link, request), "a coordinator")
        wait_until(lambda: not link.ask(offsets, 8).groups[0].error_code, "the coordinator of groups")
        wait_until(lambda: not link.ask(producer, 4).error_code, "the coordinator of transactions")


def _has_coordinator(link: Link, request: find_coordinator.FindCoordinatorRequest) -> bool:
    (found,) = link.ask(request, 4).coordinators
    return not found.error_code


@contextmanager
def quota(address: str, name: str, value: float) -> Iterator[None]:
    """Every client id has this quota, such as `producer_byte_rate`, while the block runs."""
    _alter_quota(address, quotas.OpData(key=name, value=value))
    try:
        yield
    finally:
        _alter_quota(address, quotas.OpData(key=name, remove=True))


def _alter_quota(address: str, operation: quotas.OpData) -> None:
    everyone = quotas.EntityData(entity_type="client-id", entity_name=None)
    entry = quotas.RequestEntryData(entity=[everyone], ops=[operation])
    with closing(Link(address)) as link:
        (result,) = link.ask(quotas.AlterClientQuotasRequest(entries=[entry]), _ALTER_QUOTAS_VERSION).entries
    if result.error_code:
        raise ClientError(f"error code {result.error_code}")
