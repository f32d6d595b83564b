"""Producer ids and both generations of the transaction protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from conformance.wire import state
from conformance.wire.dialogues.common import add_request, end_request, fetch_request, init_request, near, say_offsets
from conformance.wire.good_requests import D
from conformance.wire.state import PLAIN, batch, produce_request
from oncelog.protocol.api_keys import ApiKey

if TYPE_CHECKING:
    from conformance.wire.talk import Talk

EXPIRY_MS = 1000


def producer_ids(talk: Talk, version: int) -> None:
    """Epochs with and without the client's own id and epoch (KIP-360); timeouts; ids that cannot be."""
    name = talk.fresh("id")
    talk.say(init_request(None), version, "idempotent")
    first = talk.say(init_request(name), version, "first")
    talk.say(init_request(name), version, "second")
    talk.say(init_request(name, first.producer_id, 1), version, "with its id and epoch")
    talk.say(init_request(name, first.producer_id, 0), version, "with an epoch that is over")
    talk.say(init_request(name, first.producer_id, 50), version, "with an epoch to come")
    talk.say(init_request(name, first.producer_id + 1000, 0), version, "with another's id")
    talk.say(init_request(talk.fresh("id"), 77_777, 3), version, "an unknown name with an id")
    talk.say(init_request(None, first.producer_id, 0), version, "no name but an id")
    talk.say(init_request(name, first.producer_id, -1), version, "an id without epoch")
    talk.say(init_request(name, -1, 3), version, "an epoch without id")
    talk.say(init_request(""), version, "an empty name")
    for timeout_ms in (0, -1, 1, 900_000, 900_001):
        talk.say(init_request(talk.fresh("id"), timeout_ms=timeout_ms), version, f"timeout {timeout_ms}")


def transactions(talk: Talk, version: int) -> None:
    """Both generations of the protocol: EndTxn below 5 is TV1, 5 is TV2 with an epoch for each transaction."""
    name, topic = talk.fresh("id"), talk.create_topic(talk.fresh("topic"))
    init_version = 5 if version >= 5 else near(ApiKey.INIT_PRODUCER_ID, version)
    produce_version = 12 if version >= 5 else 9
    add_version = min(3, version)
    started = talk.say(init_request(name), init_version, "init")
    producer_id, epoch = started.producer_id, started.producer_epoch

    def write(label: str, sequence: int, epoch: int) -> None:
        records = batch(
            b"%s" % label.encode(),
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            transactional=True,
        )
        talk.say(produce_request(talk, topic, records, transactional_id=name), produce_version, label)

    def end(label: str, epoch: int, committed: bool, *, by: int = producer_id) -> int:
        answer = talk.say(end_request(name, by, epoch, committed), version, label)
        state.settle(talk, name)
        if answer is not None and version >= 5 and answer.error_code == 0 and answer.producer_epoch >= 0:
            return int(answer.producer_epoch)
        return epoch

    def describe(label: str) -> None:
        request = D.describe_transactions.DescribeTransactionsRequest(transactional_ids=[name])
        talk.say(request, 0, label)

    describe("describe an empty one")
    epoch = end("commit of nothing", epoch, True)
    epoch = end("abort of nothing", epoch, False)
    if version < 5:
        write("without being added", 0, epoch)
        talk.say(add_request(name, producer_id, epoch, topic, "w-absent"), add_version, "add with an absent topic")
        talk.say(
            add_request(name, producer_id, epoch, topic, partitions=(0, 7)), add_version, "add with an absent partition"
        )
        talk.say(add_request(name, producer_id, epoch, "__consumer_offsets"), add_version, "add an internal topic")
        talk.say(add_request(name, producer_id + 1, epoch, topic), add_version, "add by another producer")
        talk.say(add_request(name, producer_id, epoch + 1, topic), add_version, "add by a later epoch")
        talk.say(add_request("w-unknown", producer_id, epoch, topic), add_version, "add by an unknown name")
        talk.say(add_request(name, producer_id, epoch, topic), add_version, "add")
        talk.say(add_request(name, producer_id, epoch, topic), add_version, "add again")
    write("one", 0, epoch)
    describe("describe an ongoing one")
    talk.say(fetch_request(talk, topic, 0, isolation_level=1), 11, "committed before the end")
    plain = batch(b"plain", producer_id=producer_id, producer_epoch=epoch, base_sequence=1)
    talk.say(produce_request(talk, topic, plain), produce_version, "plain record of the same producer")
    talk.say(end_request(name, producer_id + 1, epoch, True), version, "commit by another producer")
    talk.say(end_request(name, producer_id, epoch + 1, True), version, "commit by a later epoch")
    talk.say(end_request("w-unknown", producer_id, epoch, True), version, "commit of an unknown name")
    before = epoch
    epoch = end("commit", epoch, True)
    end("commit again", before, True)
    end("abort of what is committed", before, False)
    talk.say(fetch_request(talk, topic, 0, isolation_level=1), 11, "committed after the end")
    if version < 5:
        talk.say(add_request(name, producer_id, epoch, topic), add_version, "add for a second")
    write("two", 1 if version < 5 else 0, epoch)
    fenced = epoch
    epoch = end("abort", epoch, False)
    end("abort again", fenced, False)
    end("commit of what is aborted", fenced, True)
    talk.say(fetch_request(talk, topic, 0, isolation_level=1), 11, "all with an aborted one")
    if version < 5:
        talk.say(add_request(name, producer_id, epoch, topic), add_version, "add for a third")
    write("three", 2 if version < 5 else 0, epoch)
    again = talk.say(init_request(name), init_version, "another process takes over")
    state.settle(talk, name)
    write("a zombie writes", 3 if version < 5 else 1, epoch)
    end("a zombie commits", epoch, True)
    if again is not None:
        end("nothing to commit", again.producer_epoch, True)
    describe("describe at the end")
    talk.say(fetch_request(talk, topic, 0, isolation_level=1), 11, "all")
    talk.say(fetch_request(talk, topic, 0, isolation_level=0), 11, "all, committed or not")


def mixed_ends(talk: Talk, version: int) -> None:
    """A transaction ends by version 4 or 5 of EndTxn, and then this version comes: late, again, or for another end."""
    topic = talk.create_topic(talk.fresh("topic"))
    for first in (4, 5):
        for committed in (True, False):
            for again in (True, False):
                _end_twice(talk, topic, first, version, committed, again)
    _end_next(talk, topic, version)


def _end_twice(talk: Talk, topic: str, first: int, version: int, committed: bool, again: bool) -> None:
    name = talk.fresh("id")
    producer_id, epoch = state.init_producer(talk, name)
    what = f"{_end_name(committed)} by v{first}, then {_end_name(again)}"
    _begin(talk, name, producer_id, epoch, topic)
    ended = talk.say(end_request(name, producer_id, epoch, committed), first, f"{what}: the first")
    state.settle(talk, name)
    talk.say(end_request(name, producer_id, epoch, again), version, f"{what}: with its epoch")
    if first == 5:
        talk.say(end_request(name, producer_id, ended.producer_epoch, again), version, f"{what}: with the next epoch")
    state.settle(talk, name)
    talk.say(D.describe_transactions.DescribeTransactionsRequest(transactional_ids=[name]), 0, f"{what}: describe")


def _end_next(talk: Talk, topic: str, version: int) -> None:
    """An end of the former transaction meets the next one."""
    for first in (4, 5):
        for again in (True, False):
            name = talk.fresh("id")
            producer_id, epoch = state.init_producer(talk, name)
            _begin(talk, name, producer_id, epoch, topic)
            ended = talk.ask(end_request(name, producer_id, epoch, True), first)
            state.settle(talk, name)
            following = ended.producer_epoch if first == 5 else epoch
            _begin(talk, name, producer_id, following, topic)
            if following == epoch:
                # Only the connection tells it from an end of the next one, and here there is one for all.
                continue
            what = f"{_end_name(again)} of what v{first} has committed, during the next"
            talk.say(end_request(name, producer_id, epoch, again), version, what)
            talk.say(
                D.describe_transactions.DescribeTransactionsRequest(transactional_ids=[name]), 0, f"{what}: describe"
            )


def _begin(talk: Talk, name: str, producer_id: int, epoch: int, topic: str) -> None:
    talk.ask(add_request(name, producer_id, epoch, topic), 3)


def _end_name(committed: bool) -> str:
    return "commit" if committed else "abort"


def expired_transaction(talk: Talk, version: int) -> None:
    """The coordinator aborts what outlived its timeout and bumps the epoch; the producer comes back (KIP-588)."""
    name, topic = talk.fresh("id"), talk.create_topic(talk.fresh("topic"))
    init_version = 5 if version >= 5 else near(ApiKey.INIT_PRODUCER_ID, version)
    produce_version = 12 if version >= 5 else 9
    started = talk.say(init_request(name, timeout_ms=EXPIRY_MS), init_version, "init")
    producer_id, epoch = started.producer_id, started.producer_epoch
    if version < 5:
        talk.say(add_request(name, producer_id, epoch, topic), min(3, version), "add")

    def write(label: str, sequence: int, epoch: int) -> None:
        records = batch(b"x", producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, transactional=True)
        talk.say(produce_request(talk, topic, records, transactional_id=name), produce_version, label)

    write("write in time", 0, epoch)
    request = D.describe_transactions.DescribeTransactionsRequest(transactional_ids=[name])
    talk.wait_until(
        lambda: talk.ask(request, 0).transaction_states[0].transaction_state == "CompleteAbort", f"{name} has expired"
    )
    write("write too late", 1, epoch)
    if version < 5:
        talk.say(add_request(name, producer_id, epoch, topic), min(3, version), "add too late")
    talk.say(end_request(name, producer_id, epoch, True), version, "commit too late")
    talk.say(end_request(name, producer_id, epoch, False), version, "abort too late")
    talk.say(request, 0, "describe the expired one")
    talk.say(
        init_request(name, producer_id, epoch, timeout_ms=EXPIRY_MS), init_version, "come back with the former epoch"
    )
    talk.say(init_request(name, timeout_ms=EXPIRY_MS), init_version, "come back")


def transactional_offsets(talk: Talk, version: int) -> None:
    """KIP-447 fencing, offsets that wait for the end, both ends."""
    name, group = talk.fresh("id"), talk.fresh("group")
    producer_id, epoch = state.init_producer(talk, name)
    api = D.txn_offset_commit

    def commit(label: str, offset: int, *, epoch: int = epoch, **options: Any) -> None:
        partition = api.TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
        topics = [
            api.TxnOffsetCommitRequestTopic(name=topic, partitions=[partition])
            for topic in options.pop("topics", [PLAIN])
        ]
        request = api.TxnOffsetCommitRequest(
            transactional_id=name,
            group_id=options.pop("group", group),
            producer_id=producer_id,
            producer_epoch=epoch,
            generation_id=options.pop("generation", -1),
            member_id=options.pop("member", ""),
            topics=topics,
            **options,
        )
        talk.say(request, version, label)

    if version < 5:
        commit("before the group is added", 1)
        add = D.add_offsets_to_txn.AddOffsetsToTxnRequest(
            transactional_id=name, producer_id=producer_id, producer_epoch=epoch, group_id=group
        )
        talk.say(add, near(ApiKey.ADD_OFFSETS_TO_TXN, version), "add the group")
    commit("commit", 2)
    commit("commit for an absent topic", 2, topics=["w-absent", PLAIN])
    commit("commit by a former epoch", 3, epoch=epoch - 1)
    commit("commit of a generation of nobody", 3, generation=4, member="nobody")
    commit(
        "commit for members of another generation",
        3,
        group=state.CLASSIC,
        generation=9,
        member=talk.kept["classic member"],
    )
    say_offsets(talk, group, "while open", 6)
    _fetch_unstable(talk, group)
    end_version = 5 if version >= 5 else 3
    talk.say(end_request(name, producer_id, epoch, True), end_version, "end")
    _fetch_offsets_settled(talk, group)


def _fetch_unstable(talk: Talk, group: str) -> None:
    api = D.offset_fetch
    topics = [api.OffsetFetchRequestTopics(name=PLAIN, partition_indexes=[0])]
    groups = [api.OffsetFetchRequestGroup(group_id=group, topics=topics)]
    talk.say(api.OffsetFetchRequest(groups=groups, require_stable=True), 9, "stable offsets while open")


def _fetch_offsets_settled(talk: Talk, group: str) -> None:
    api = D.offset_fetch
    topics = [api.OffsetFetchRequestTopics(name=PLAIN, partition_indexes=[0])]
    groups = [api.OffsetFetchRequestGroup(group_id=group, topics=topics)]
    # Kafka answers the end before it has told the group, and 88 says so.
    talk.say(api.OffsetFetchRequest(groups=groups, require_stable=True), 9, "offsets at the end", passing={88})


def list_transactions(talk: Talk, version: int) -> None:
    api = D.list_transactions
    questions: dict[str, dict[str, Any]] = {
        "w-.*": {"transactional_id_pattern": "w-.*"},
        "open": {"state_filters": ["Ongoing"], "transactional_id_pattern": "w-open"},
        "an unknown state": {"state_filters": ["Nope"], "transactional_id_pattern": "w-open"},
        "a bad pattern": {"transactional_id_pattern": "("},
        "long ones": {"duration_filter": 10_000_000, "transactional_id_pattern": "w-open"},
        "an unknown producer": {"producer_id_filters": [999_999]},
    }
    for label, values in questions.items():
        if version >= 2 or "transactional_id_pattern" not in values:
            talk.say(api.ListTransactionsRequest(**values), version, label)
