from __future__ import annotations

import time
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING

from conformance.client import ClientError, Json
from conformance.scenarios.groups import read
from conformance.scenarios.run import Run, attempt, create

if TYPE_CHECKING:
    from conformance.client import Client

TIMEOUT_MS = 1000
EXPIRED_AFTER_S = 4.0
"""The harness has both brokers look for expired transactions every half second."""


def transactions(client: Client, run: Run) -> Json:
    """Commit, abort, fencing, timeout; offsets inside; both isolation levels over the log that results."""
    return {
        "commit and abort": attempt(lambda: _commit_and_abort(client, run)),
        "offsets": attempt(lambda: _offsets(client, run)),
        "fencing": attempt(lambda: _fencing(client, run)),
        "timeout": attempt(lambda: _timeout(client, run)),
    }


def idempotence(client: Client, run: Run) -> Json:
    """An idempotent producer's offsets follow each other, also across a second producer and a restart."""
    topic = run.topic("idempotent")
    create(client, topic, configs={"retention.ms": "-1"})
    seen: dict[str, Json] = {}
    with closing(client.open_producer(None)) as producer:
        for index in range(7):
            seen[f"send {index}"] = attempt(partial(producer.send, topic, b"%d" % index))
    with closing(client.open_producer(None)) as producer:
        seen["another producer"] = attempt(lambda: producer.send(topic, b"other"))
    return seen


def _commit_and_abort(client: Client, run: Run) -> Json:
    topic, name = run.topic("mixed"), run.topic("id")
    create(client, topic, configs={"retention.ms": "-1"})
    seen: dict[str, Json] = {}
    with closing(client.open_producer(name)) as producer:
        producer.init()
        for label, commit in (("one", True), ("two", False), ("three", True)):
            producer.begin()
            seen[label] = [producer.send(topic, f"{label}-{part}".encode()) for part in range(2)]
            if commit:
                producer.commit()
            else:
                producer.abort()
        producer.begin()
        seen["open"] = producer.send(topic, b"open")
        for isolation, count in (("read_committed", 4), ("read_uncommitted", 7)):
            group = run.topic(f"group-{isolation}")
            with closing(client.open_consumer(topic, group, isolation=isolation)) as consumer:
                seen[isolation] = read(consumer, count)
        producer.abort()
    return seen


def _offsets(client: Client, run: Run) -> Json:
    source, target, group = run.topic("source"), run.topic("target"), run.topic("group-copy")
    create(client, source, configs={"retention.ms": "-1"})
    create(client, target, configs={"retention.ms": "-1"})
    seen: dict[str, Json] = {}
    with closing(client.open_producer(None)) as plain:
        for value in (b"a", b"b", b"c"):
            plain.send(source, value)
    with (
        closing(client.open_consumer(source, group)) as consumer,
        closing(client.open_producer(run.topic("copier"))) as producer,
    ):
        read(consumer, 3)
        producer.init()
        producer.begin()
        producer.send(target, b"a")
        producer.send_offset(consumer, source, 1)
        producer.commit()
        seen["after commit"] = _settled(lambda: consumer.committed(0), 1)
        producer.begin()
        producer.send(target, b"b")
        producer.send_offset(consumer, source, 2)
        producer.abort()
        seen["after abort"] = _settled(lambda: consumer.committed(0), 1)
    return seen


def _settled(look: object, wanted: Json) -> Json:
    """Kafka ends a transaction behind its answer: what is read at once may be of before, or refused as unstable."""
    deadline = time.monotonic() + 10
    while True:
        try:
            found: Json = look()  # type: ignore[operator]
        except ClientError as error:
            found = str(error)
        if found == wanted or time.monotonic() > deadline:
            return found
        time.sleep(0.1)


def _fencing(client: Client, run: Run) -> Json:
    topic, name = run.topic("fenced"), run.topic("fenced-id")
    create(client, topic, configs={"retention.ms": "-1"})
    seen: dict[str, Json] = {}
    with closing(client.open_producer(name)) as zombie, closing(client.open_producer(name)) as heir:
        zombie.init()
        zombie.begin()
        seen["first"] = zombie.send(topic, b"of the first")
        heir.init()
        heir.begin()
        seen["heir"] = attempt(lambda: bool(heir.send(topic, b"of the heir")))
        seen["zombie commits"] = attempt(lambda: zombie.commit())
        seen["heir commits"] = attempt(lambda: heir.commit())
    with closing(client.open_consumer(topic, run.topic("group-fenced"), isolation="read_committed")) as consumer:
        seen["committed"] = read(consumer, 1)
    return seen


def _timeout(client: Client, run: Run) -> Json:
    topic = run.topic("late")
    create(client, topic, configs={"retention.ms": "-1"})
    seen: dict[str, Json] = {}
    with closing(client.open_producer(run.topic("late-id"), timeout_ms=TIMEOUT_MS)) as producer:
        producer.init()
        producer.begin()
        seen["sent"] = producer.send(topic, b"never committed")
        time.sleep(EXPIRED_AFTER_S)
        seen["commit"] = attempt(lambda: producer.commit())
    with closing(client.open_producer(None)) as plain:
        seen["after"] = attempt(lambda: plain.send(topic, b"plain"))
    with closing(client.open_consumer(topic, run.topic("group-late"), isolation="read_committed")) as consumer:
        seen["committed"] = read(consumer, 1)
    return seen
