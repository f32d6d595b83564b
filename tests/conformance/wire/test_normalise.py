from __future__ import annotations

import time
import uuid

from conformance.wire.normalise import Names, plain
from conformance.wire.state import TIME_MS, batch
from oncelog.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from oncelog.protocol.messages.describe_producers import (
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from oncelog.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from oncelog.protocol.messages.join_group import JoinGroupResponse
from oncelog.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

TOPIC_ID = bytes(range(16))


def fetched(records: bytes) -> FetchResponse:
    partition = PartitionData(partition_index=0, aborted_transactions=None, records=records)
    return FetchResponse(session_id=77, responses=[FetchableTopicResponse(topic_id=TOPIC_ID, partitions=[partition])])


def test_lists_are_told_by_identity_and_times_of_the_run_by_a_word() -> None:
    partition = ListOffsetsPartitionResponse(partition_index=3, timestamp=int(time.time() * 1000), offset=5)
    response = ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=[partition])])
    seen = plain(response, 4, Names())
    assert seen["topics"]["t"]["partitions"]["3"]["timestamp"] == "now"  # type: ignore[index,call-overload]
    assert "throttle_time_ms" not in seen


def test_the_order_of_a_list_with_identities_does_not_matter() -> None:
    keys = [ApiVersion(api_key=2), ApiVersion(api_key=1)]
    left, right = ApiVersionsResponse(api_keys=keys), ApiVersionsResponse(api_keys=keys[::-1])
    assert plain(left, 0, Names()) == plain(right, 0, Names())


def test_records_are_decoded() -> None:
    names = Names()
    names.topics[TOPIC_ID] = "t"
    seen = plain(fetched(batch(b"a", b"b")), 13, names)
    (told,) = seen["responses"]["id of t"]["partitions"]["0"]["records"]  # type: ignore[index,call-overload,misc]
    assert [record["value"] for record in told["records"]] == ["a", "b"]  # type: ignore[index,call-overload,union-attr]
    assert told["records"][0]["timestamp"] == TIME_MS  # type: ignore[index,call-overload]
    assert seen["session_id"] == "some"


def test_ids_of_members_become_numbers() -> None:
    names = Names()
    first, second = (f"wire-{uuid.uuid4()}" for _ in range(2))
    shown = [plain(JoinGroupResponse(member_id=member), 3, names)["member_id"] for member in (first, second, first)]
    assert shown == ["wire member 1", "wire member 2", "wire member 1"]
    assert plain(JoinGroupResponse(member_id="nobody"), 3, names)["member_id"] == "nobody"


def test_the_order_of_a_fetch_is_seen() -> None:
    def answer(*names: str) -> FetchResponse:
        topics = [FetchableTopicResponse(topic=name, partitions=[PartitionData(partition_index=0)]) for name in names]
        return FetchResponse(responses=topics)

    one, other = (plain(answer(*names), 12, Names()) for names in (("a", "b"), ("b", "a")))
    assert one != other
    assert plain(answer("a"), 12, Names())["responses"].keys() == {"a"}  # type: ignore[union-attr]


def test_producers_are_numbered_in_the_order_of_their_ids() -> None:
    """Kafka lists them in the order of a hash table, in which 1000 may come before 999."""

    def answer(*producer_ids: int) -> DescribeProducersResponse:
        producers = [ProducerState(producer_id=number, producer_epoch=number % 7) for number in producer_ids]
        partition = PartitionResponse(partition_index=0, active_producers=producers)
        return DescribeProducersResponse(topics=[TopicResponse(name="t", partitions=[partition])])

    assert plain(answer(999, 1000), 0, Names()) == plain(answer(1000, 999), 0, Names())
