"""What tests of groups share. Makes the helpers beside them importable, whatever import mode pytest uses."""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import Iterator

import pytest

from oncelog.testing import Broker

sys.path.insert(0, os.path.dirname(__file__))

from members import Admin, Member


@pytest.fixture(scope="module")
def admin(broker: Broker) -> Admin:
    return Admin(broker.bootstrap_servers)


@pytest.fixture
def group_id() -> str:
    return f"g-{uuid.uuid4().hex[:8]}"


@pytest.fixture(autouse=True)
def no_member_outlives_its_test() -> Iterator[None]:
    """The threads of one that was left over would use the global `random`, to the surprise of hypothesis."""
    yield
    for member in list(Member.running):
        member.abandon()
