"""Transactions of every stock client: what readers see of them, fencing, timeouts, offsets."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from direct_batches import describe_producers, produce_unasked
from java_driver import JavaDriver
from producers import TIMEOUT_MS, Abortable, ConfluentProducer, Fenced, JavaProducer, Producers
from reading import Member, committed_offset, read, stable_end

from oncelog.protocol.errors import ErrorCode
from oncelog.testing import Broker

Unique = Callable[[str], str]

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*_text is deprecated:DeprecationWarning", "ignore:.*socket:pytest.PytestUnraisableExceptionWarning"
)


def test_what_is_committed_is_visible_when_commit_returns(
    broker: Broker, topic: str, producers: Producers, unique: Unique
) -> None:
    producer = producers.make(unique("id"))
    expected: list[list[str]] = [[], [], []]
    for number in range(10):
        producer.begin()
        for partition in range(number % 3 + 1):
            expected[partition].append(f"{number}")
            producer.send(topic, partition, f"{number}")
        producer.commit()
        assert read(broker.bootstrap_servers, topic) == expected


def test_what_is_aborted_is_seen_by_read_uncommitted_only(
    broker: Broker, topic: str, producers: Producers, unique: Unique
) -> None:
    producer = producers.make(unique("id"))
    for number in range(6):
        producer.begin()
        producer.send(topic, 0, f"{number}")
        producer.send(topic, number % 3, f"{number}")
        producer.flush()
        if number % 2:
            producer.commit()
        else:
            producer.abort()
    assert read(broker.bootstrap_servers, topic, committed=False) == [
        ["0", "0", "1", "2", "3", "3", "4", "5"],
        ["1", "4"],
        ["2", "5"],
    ]
    assert read(broker.bootstrap_servers, topic) == [["1", "3", "3", "5"], ["1"], ["5"]]


def test_an_open_transaction_holds_back_what_came_after_it(
    broker: Broker, topic: str, producers: Producers, unique: Unique
) -> None:
    address = broker.bootstrap_servers
    slow, quick = producers.make(unique("slow")), producers.make(unique("quick"))
    slow.begin()
    slow.send(topic, 0, "slow")
    slow.flush()
    quick.begin()
    quick.send(topic, 0, "quick")
    quick.commit()
    assert stable_end(address, topic, 0) == 0
    assert read(address, topic) == [[], [], []]
    slow.commit()
    assert read(address, topic) == [["slow", "quick"], [], []]


def test_a_second_producer_fences_the_first_and_aborts_what_it_left(
    broker: Broker, topic: str, producers: Producers, unique: Unique
) -> None:
    transactional_id = unique("id")
    zombie = producers.make(transactional_id)
    zombie.begin()
    zombie.send(topic, 0, "zombie")
    zombie.flush()
    owner = producers.make(transactional_id)
    assert stable_end(broker.bootstrap_servers, topic, 0) == 2
    owner.begin()
    owner.send(topic, 0, "owner")
    owner.commit()
    with pytest.raises(Fenced):
        zombie.commit()
    assert read(broker.bootstrap_servers, topic) == [["owner"], [], []]


def test_a_zombie_that_goes_on_writing_is_fenced(
    broker: Broker, topic: str, producers: Producers, unique: Unique
) -> None:
    transactional_id = unique("id")
    zombie = producers.make(transactional_id)
    zombie.begin()
    zombie.send(topic, 0, "zombie")
    zombie.flush()
    producers.make(transactional_id)

    def go_on() -> None:
        zombie.send(topic, 0, "zombie again")
        zombie.flush()
        zombie.commit()

    with pytest.raises((Fenced, Abortable)):
        go_on()
    assert read(broker.bootstrap_servers, topic) == [[], [], []]


def test_a_transaction_that_takes_too_long_is_aborted(
    broker: Broker, topic: str, producers: Producers, unique: Unique
) -> None:
    producer = producers.make(unique("id"))
    producer.begin()
    producer.send(topic, 0, "late")
    producer.flush()
    broker.clock.advance(TIMEOUT_MS)
    assert stable_end(broker.bootstrap_servers, topic, 0) == 2
    with pytest.raises((Fenced, Abortable)):
        producer.commit()
    assert read(broker.bootstrap_servers, topic) == [[], [], []]


def test_offsets_in_a_transaction_share_its_fate(
    broker: Broker, topic: str, producers: Producers, unique: Unique
) -> None:
    address, group_id = broker.bootstrap_servers, unique("group")
    producer = producers.make(unique("id"))
    producer.begin()
    producer.send(topic, 0, "one")
    producer.send_offset(topic, 1, 5, group_id)
    producer.commit()
    assert committed_offset(address, group_id, topic, 1) == 5
    producer.begin()
    producer.send(topic, 0, "two")
    producer.send_offset(topic, 1, 9, group_id)
    producer.abort()
    assert committed_offset(address, group_id, topic, 1) == 5
    producer.begin()
    producer.send_offset(topic, 1, 7, group_id)
    producer.commit()
    assert committed_offset(address, group_id, topic, 1) == 7


def test_a_producer_outlives_a_restart_of_the_broker(
    broker: Broker, topic: str, producers: Producers, unique: Unique
) -> None:
    producer = producers.make(unique("id"))
    for number in range(3):
        producer.begin()
        producer.send(topic, number, f"{number}")
        producer.commit()
        broker.restart()
    assert read(broker.bootstrap_servers, topic) == [["0"], ["1"], ["2"]]


def test_what_belongs_to_no_transaction_is_refused_and_hangs_nothing(broker: Broker, topic: str) -> None:
    """In the words that the version of Produce knows (KIP-890)."""
    address = broker.bootstrap_servers
    producer = ConfluentProducer(address, "nobody", TIMEOUT_MS)
    for version in (9, 11, 12):
        code = produce_unasked(address, topic, 0, producer_id=77_000, version=version)
        assert code == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    producer.begin()
    producer.send(topic, 1, "asked")
    producer.flush()
    (described,) = describe_producers(address, topic, 1)
    for version, code in ((9, ErrorCode.INVALID_TXN_STATE), (11, ErrorCode.TRANSACTION_ABORTABLE)):
        assert produce_unasked(address, topic, 0, producer_id=described.producer_id, version=version) == code
    producer.commit()
    producer.close()
    assert read(address, topic) == [[], ["asked"], []]


@pytest.mark.java
def test_both_generations_share_a_topic(broker: Broker, topic: str, java: JavaDriver, unique: Unique) -> None:
    """Version 1 keeps its epoch, version 2 gets a new one with every end; readers see no difference."""
    address = broker.bootstrap_servers
    old = ConfluentProducer(address, unique("old"), TIMEOUT_MS)
    name = unique("new")
    new = JavaProducer(java, name, address, name, TIMEOUT_MS)
    expected = []
    for number in range(6):
        for which, producer in (("old", old), ("new", new)):
            producer.begin()
            producer.send(topic, 0, f"{which} {number}")
            producer.flush()
        for producer in (new, old):
            if number % 3 == 2:
                producer.abort()
            else:
                producer.commit()
        if number % 3 != 2:
            expected += [f"old {number}", f"new {number}"]
    assert read(address, topic) == [expected, [], []]
    epochs = sorted(producer.producer_epoch for producer in describe_producers(address, topic, 0))
    assert epochs == [0, 6]
    old.close()
    new.close()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_consumer_that_lost_its_partitions_commits_no_offsets(
    broker: Broker, topic: str, unique: Unique, protocol: str
) -> None:
    """Its producer is told so, and nothing of its transaction comes to pass (KIP-447)."""
    address, group_id = broker.bootstrap_servers, unique("group")
    zombie = Member(address, group_id, topic, protocol)
    metadata = zombie.group_metadata()
    zombie.close()
    owner = Member(address, group_id, topic, protocol)
    producer = ConfluentProducer(address, unique("id"), TIMEOUT_MS)
    producer.begin()
    producer.send(topic, 0, "zombie")
    with pytest.raises(Abortable):
        producer.send_offset(topic, 0, 5, group_id, metadata)
    producer.abort()
    producer.begin()
    producer.send(topic, 0, "owner")
    producer.send_offset(topic, 0, 6, group_id, owner.group_metadata())
    producer.commit()
    assert committed_offset(address, group_id, topic, 0) == 6
    assert read(address, topic) == [["owner"], [], []]
    owner.close()


@pytest.mark.java
def test_kafkas_own_producer_recovers_from_the_timeout(
    broker: Broker, topic: str, java: JavaDriver, unique: Unique
) -> None:
    """Its commit is refused so that it may abort, and it goes on (KIP-588); Apache Kafka ends the producer."""
    name = unique("id")
    producer = JavaProducer(java, name, broker.bootstrap_servers, name, TIMEOUT_MS)
    for ending in ("commit", "flush"):
        producer.begin()
        producer.send(topic, 0, "late")
        producer.flush()
        broker.clock.advance(TIMEOUT_MS)
        if ending == "flush":
            producer.send(topic, 0, "later")
            producer.flush()
        # A partition's word for it is InvalidProducerEpochException, which is not yet the end of a producer.
        with pytest.raises((Abortable, Fenced)):
            producer.commit()
        producer.abort()
        producer.begin()
        producer.send(topic, 0, ending)
        producer.commit()
    assert read(broker.bootstrap_servers, topic) == [["commit", "flush"], [], []]
    producer.close()
