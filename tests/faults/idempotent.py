"""An idempotent producer of confluent-kafka, without transactions."""

from __future__ import annotations

from functools import partial
from typing import Any

from confluent_kafka import Producer

from tests.faults.readers import place
from tests.faults.records import encode

TIMEOUT_S = 30


class IdempotentProducer:
    def __init__(self, address: str) -> None:
        self._client = Producer(
            {
                "bootstrap.servers": address,
                "enable.idempotence": True,
                "linger.ms": 0,
                "reconnect.backoff.max.ms": 200,
                "metadata.recovery.strategy": "none",
                "log_level": 0,
            }
        )

    def send(self, sends: list[list[Any]]) -> None:
        """All of them, and note their offsets."""
        for part in sends:
            self._client.produce(
                place(part[1])[0],
                encode(part[1], part[3]).encode(),
                partition=place(part[1])[1],
                on_delivery=partial(_note, part),
            )
        assert self._client.flush(TIMEOUT_S) == 0, "not all is written"
        assert all(part[2] is not None for part in sends), "not all was accepted"


def _note(part: list[Any], error: Any, message: Any) -> None:
    if error is None:
        part[2] = message.offset()
