from __future__ import annotations

import random
from functools import partial
from typing import TYPE_CHECKING

from conformance.client import Json, Record
from conformance.scenarios.run import Run, attempt, create

if TYPE_CHECKING:
    from conformance.client import Client

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
ACKS = ("0", "1", "all")
SIZES_BYTES = (1, 100, 10_000, 1_000_000)
"""Larger ones are in large_messages."""
FAST_SIZES_BYTES = (1, 100, 10_000)
TIME_MS = 1_700_000_000_000
NULL_HEADER = Record(b"a header without value", b"k", (("h", None),), TIME_MS)
TOPIC_CONFIGS = {"max.message.bytes": "12000000", "retention.ms": "-1"}


def produce_consume(client: Client, run: Run) -> Json:
    """Every codec with every acks: what is produced is what is consumed; a record too large is refused."""
    acks_choices = ("all",) if run.fast else ACKS
    records = _records(FAST_SIZES_BYTES if run.fast else SIZES_BYTES)
    seen: dict[str, Json] = {}
    for codec in CODECS:
        for acks in acks_choices:
            seen[f"codec {codec}, acks {acks}"] = attempt(partial(_round, client, run, records, codec, acks))
    seen["header without value"] = attempt(lambda: _null_header(client, run))
    seen["too large"] = attempt(lambda: _too_large(client, run))
    return seen


def _round(client: Client, run: Run, records: list[Record], codec: str, acks: str) -> Json:
    topic = run.topic(f"{codec}-{acks}")
    create(client, topic, configs=TOPIC_CONFIGS)
    produced = client.produce(topic, records, codec=codec, acks=acks)
    return {"produced": produced, "consumed": list(client.consume(topic, len(records)))}


def _null_header(client: Client, run: Run) -> Json:
    topic = run.topic("null-header")
    create(client, topic, configs=TOPIC_CONFIGS)
    produced = client.produce(topic, [NULL_HEADER], codec="none", acks="1")
    return {"produced": produced, "consumed": list(client.consume(topic, 1))}


def _too_large(client: Client, run: Run) -> Json:
    topic = run.topic("too-large")
    create(client, topic, configs={"max.message.bytes": "1000", "retention.ms": "-1"})
    large, small = Record(b"x" * 2_000, timestamp_ms=TIME_MS), Record(b"fits", timestamp_ms=TIME_MS)
    # One call for each: the Java producer would put both in one batch, and then split it in vain for ever.
    produced = [attempt(partial(client.produce, topic, [record], codec="none", acks="1")) for record in (large, small)]
    return {"produced": produced, "consumed": list(client.consume(topic, 1))}


def _records(sizes_bytes: tuple[int, ...]) -> list[Record]:
    rng = random.Random(sizes_bytes[-1])
    sized = [Record(_text(rng, size), b"key-%d" % size, (("size", b"%d" % size),)) for size in sizes_bytes]
    odd = [
        Record(b"no key"),
        Record(None, b"tombstone"),
        Record(b"", b"empty value"),
        Record(b"two headers of one name", b"k", (("h", b"1"), ("h", b"2"))),
    ]
    return [record._replace(timestamp_ms=TIME_MS + index) for index, record in enumerate(sized + odd)]


def _text(rng: random.Random, size: int) -> bytes:
    """Printable, and half as large when compressed, so that each codec has something to do."""
    return rng.randbytes((size + 1) // 2).hex().encode()[:size]
