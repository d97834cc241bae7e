"""Fixtures: a fake server, a client connected to it, and a tokenizer."""

from collections.abc import Iterator

import lockstep
import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

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


@pytest.fixture
def byte_tokenizer() -> Tokenizer:
    """A token is a byte."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(
        models.BPE(vocab={character: i for i, character in enumerate(alphabet)}, merges=[])
    )
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer
