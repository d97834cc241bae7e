"""Goal: a server process is started with the asked flags, told apart from one that fails, and always ended."""

import os
import stat
from pathlib import Path

import lockstep
import pytest

# Stands for lockstep_server: writes its arguments to the log and the port to --port_file, then waits for its end.
STAND_IN = """#!/usr/bin/env python3
import signal, sys
print(*sys.argv[1:], sep="\\n", flush=True)
flags = dict(argument.lstrip("-").split("=", 1) for argument in sys.argv[1:])
if flags["model"].endswith("broken"):
    sys.exit("model: no config.json in broken")
with open(flags["port_file"], "w") as file:
    file.write("4711\\n")
signal.pause()
"""


@pytest.fixture
def binary(tmp_path: Path) -> Path:
    path = tmp_path / "server"
    path.write_text(STAND_IN)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_runs_from_with_to_the_end_of_the_block(binary: Path, tmp_path: Path) -> None:
    log_path = tmp_path / "log"
    flags = {"stages": 2, "insecure_remote": False, "instruction_set": "avx2"}
    with lockstep.LocalServer(binary, "tiny", flags=flags, log_path=log_path) as server:
        assert server.address == "127.0.0.1:4711"
        pid = server.pid
        assert is_running(pid)
        lines = log_path.read_text().splitlines()
    assert not is_running(pid)
    assert lines[:2] == ["--model=tiny", "--listen=127.0.0.1:0"]
    assert lines[3:] == ["--stages=2", "--insecure_remote=false", "--instruction_set=avx2"]


def test_is_ended_after_an_error_in_the_block(binary: Path) -> None:
    with (
        pytest.raises(RuntimeError, match="ours"),
        lockstep.LocalServer(binary, "tiny") as server,
    ):
        pid = server.pid
        raise RuntimeError("ours")
    assert not is_running(pid)


def test_a_server_that_ends_is_quoted(binary: Path) -> None:
    with (
        pytest.raises(RuntimeError, match="status 1:(.|\n)*no config.json in broken"),
        lockstep.LocalServer(binary, "broken"),
    ):
        pass
