"""Fixtures: the tiny byte-level model, a server process of the test's own over it, and SmolLM2 for the long tests.

The binary is the one that `bazel build //server:lockstep_server` leaves; tools/test builds it first.
"""

import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import lockstep
import pytest

# Its assertions show their values like those of a test file.
pytest.register_assert_rewrite("model_checks")

from model_checks import BINARY

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("model") / "tiny"
    subprocess.run([BINARY, "init-model", directory], check=True, stdout=subprocess.DEVNULL)
    return directory


@pytest.fixture
def start_server(tiny_model: Path) -> Iterator[Callable[..., lockstep.LocalServer]]:
    """Starts a server with the flags it is given, which runs to the test's end."""
    with ExitStack() as running:
        yield lambda **flags: running.enter_context(
            lockstep.LocalServer(BINARY, tiny_model, flags=flags)
        )


@pytest.fixture
def server(start_server: Callable[..., lockstep.LocalServer]) -> lockstep.LocalServer:
    return start_server()


@pytest.fixture(scope="session")
def smollm2_model() -> Path:
    """SmolLM2-135M-Instruct, downloaded where it is not there yet."""
    made = subprocess.run(
        [ROOT / "tools" / "get_smollm2"], check=True, stdout=subprocess.PIPE, text=True
    )
    return Path(made.stdout.strip())
