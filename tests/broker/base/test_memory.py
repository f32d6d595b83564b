"""Full garbage collections stay short, however much state the broker holds."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from oncelog.broker.base import memory
from oncelog.broker.base.memory import LongCollections


@pytest.fixture
def collections() -> Iterator[LongCollections]:
    collections = LongCollections()
    collections.start()
    yield collections
    collections.stop()
    gc.unfreeze()


def test_what_survives_a_long_collection_is_not_visited_again(
    collections: LongCollections, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "LONG_COLLECTION_SECONDS", 0)
    state = [[number] for number in range(1000)]
    gc.collect()
    assert not any(found is state[0] for found in gc.get_objects())


def test_what_survives_a_short_collection_is(collections: LongCollections, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "LONG_COLLECTION_SECONDS", 60)
    state = [[1]]
    gc.collect()
    assert any(found is state for found in gc.get_objects())


def test_collections_of_the_young_freeze_nothing(collections: LongCollections, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "LONG_COLLECTION_SECONDS", 0)
    state = [[1]]
    gc.collect(1)
    assert any(found is state for found in gc.get_objects())
