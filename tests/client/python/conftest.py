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
    # Its deadline is longer than any wait of a test: no call ends by it instead of by what is tested.
    with lockstep.Client(server.address) as connected:
        yield connected
