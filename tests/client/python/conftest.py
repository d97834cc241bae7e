"""Fixtures: a fake server, and a client connected to it."""

from collections.abc import Iterator

import lockstep
import pytest

from tests.client.python.fake_server import FakeServer, serving


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with serving() as fake:
        yield fake


@pytest.fixture
def client(server: FakeServer) -> Iterator[lockstep.Client]:
    with lockstep.Client(server.address, timeout=60.0) as connected:
        yield connected
