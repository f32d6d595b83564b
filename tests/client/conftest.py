"""One broker for all tests of the client. Topics have fresh names, so the tests do not see each other."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator

import pytest

from oncelog.client.admin import Admin
from oncelog.client.cluster import Cluster

_numbers = itertools.count()


@pytest.fixture
def cluster(bootstrap_servers: str) -> Iterator[Cluster]:
    with Cluster(bootstrap_servers) as opened:
        yield opened


@pytest.fixture
def admin(cluster: Cluster) -> Admin:
    return Admin(cluster)


@pytest.fixture
def new_name() -> Callable[[], str]:
    return lambda: f"client-{os.getpid()}-{next(_numbers)}"


@pytest.fixture
def topic(admin: Admin, new_name: Callable[[], str]) -> str:
    """A topic of three partitions."""
    name = new_name()
    admin.create_topic(name, partitions=3)
    return name
