"""One Apache Kafka for all tests of a session that need the reference."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from conformance.reference.jars import missing
from conformance.reference.kafka import ApacheKafka

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def java() -> None:
    """Skips where Java or Maven is missing, and says which."""
    if (reason := missing()) is not None:
        pytest.skip(reason)


@pytest.fixture(scope="session")
def apache_kafka(java: None) -> Iterator[ApacheKafka]:
    with ApacheKafka() as kafka:
        yield kafka
