"""What tests of maintenance share. Makes the helper beside them importable, whatever import mode pytest uses."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

sys.path.insert(0, os.path.dirname(__file__))

from housekeeping_world import World


@pytest_asyncio.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    world = World(tmp_path)
    yield world
    await world.close()


@pytest_asyncio.fixture
async def lazy_world(tmp_path: Path) -> AsyncIterator[World]:
    """A world in which acks do not wait for the disk."""
    world = World(tmp_path, flush_on_ack=False)
    yield world
    await world.close()
