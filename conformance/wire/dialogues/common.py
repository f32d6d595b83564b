"""What several dialogues say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from conformance.wire.good_requests import D
from conformance.wire.state import PLAIN
from oncelog.broker.handlers import APIS
from oncelog.protocol.api_keys import ApiKey

if TYPE_CHECKING:
    from conformance.wire.talk import Talk

UNKNOWN_ID = b"\x05" * 16


def near(api: ApiKey, version: int) -> int:
    """The version of another API to use beside version `version` of the main one."""
    known = APIS[api]
    return max(known.version_min, min(known.version_max, version))


def fetch_request(talk: Talk, topic: str, offset: int, **options: Any) -> Any:
    api = D.fetch
    partition = api.FetchPartition(
        partition=options.pop("partition", 0),
        current_leader_epoch=options.pop("leader_epoch", -1),
        fetch_offset=offset,
        partition_max_bytes=options.pop("partition_max_bytes", 1 << 20),
    )
    topic_id = talk.kept.get(f"id of {topic}", UNKNOWN_ID)
    values: dict[str, Any] = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1 << 22}
    return api.FetchRequest(
        topics=[api.FetchTopic(topic=topic, topic_id=topic_id, partitions=[partition])], **values | options
    )


def say_offsets(talk: Talk, group: str, label: str, version: int) -> None:
    api = D.offset_fetch
    for what, topics in (("all", None), ("one", [PLAIN])):
        if topics is None and version < 2:
            continue
        request = api.OffsetFetchRequest(
            group_id=group,
            topics=topics and [api.OffsetFetchRequestTopic(name=name, partition_indexes=[0, 1, 9]) for name in topics],
            groups=[
                api.OffsetFetchRequestGroup(
                    group_id=group,
                    topics=topics
                    and [
                        api.OffsetFetchRequestTopics(
                            name=name, topic_id=talk.topic_id(name), partition_indexes=[0, 1, 9]
                        )
                        for name in topics
                    ],
                )
            ],
            require_stable=True,
        )
        talk.say(request, version, f"{label}: {what}")


def init_request(name: str | None, producer_id: int = -1, epoch: int = -1, timeout_ms: int = 60_000) -> Any:
    return D.init_producer_id.InitProducerIdRequest(
        transactional_id=name, transaction_timeout_ms=timeout_ms, producer_id=producer_id, producer_epoch=epoch
    )


def add_request(name: str, producer_id: int, epoch: int, *topics: str, partitions: tuple[int, ...] = (0,)) -> Any:
    api = D.add_partitions_to_txn
    return api.AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=name,
        v3_and_below_producer_id=producer_id,
        v3_and_below_producer_epoch=epoch,
        v3_and_below_topics=[api.AddPartitionsToTxnTopic(name=topic, partitions=list(partitions)) for topic in topics],
    )


def end_request(name: str, producer_id: int, epoch: int, committed: bool) -> Any:
    return D.end_txn.EndTxnRequest(
        transactional_id=name, producer_id=producer_id, producer_epoch=epoch, committed=committed
    )


def describe_group(talk: Talk, group: str, label: str) -> None:
    talk.say(D.describe_groups.DescribeGroupsRequest(groups=[group], include_authorized_operations=True), 5, label)
