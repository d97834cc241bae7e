"""A server process of one's own on this machine, for examples, tests and notebooks."""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from lockstep.client import Client

# How long a server is given to end by itself after SIGTERM, in seconds.
STOP_TIMEOUT_S = 30.0
# How often the file with the port is looked for while the server starts, in seconds.
_POLL_INTERVAL_S = 0.05
# How much of the end of the log an error shows, in lines.
_LOG_TAIL_LINES = 20


class LocalServer:
    """Runs `lockstep_server` on a free port of the loopback address, from `with` to the end of its block.

    `flags` are settings by their name in ServerConfig, such as {"stages": 2}. What the server
    writes goes to the file at `log_path`, which stays; None: to a temporary file that does not.
    """

    def __init__(
        self,
        binary: str | Path,
        model_directory: str | Path,
        *,
        flags: Mapping[str, str | int | bool] | None = None,
        log_path: str | Path | None = None,
        start_timeout: float = 300.0,
    ) -> None:
        self._binary = Path(binary)
        self._model_directory = Path(model_directory)
        self._flags = dict(flags or {})
        self._given_log_path = None if log_path is None else Path(log_path)
        self._start_timeout = start_timeout
        self._process: subprocess.Popen[bytes] | None = None
        self._scratch: tempfile.TemporaryDirectory[str] | None = None
        self._port = 0

    @property
    def address(self) -> str:
        """host:port; only inside the `with` block."""
        return f"127.0.0.1:{self._port}"

    @property
    def pid(self) -> int:
        """The server's process id; only inside the `with` block."""
        if self._process is None:
            raise RuntimeError("the server has not been started")
        return self._process.pid

    def client(self, *, timeout: float | None = 600.0) -> Client:
        """A client connected to this server."""
        return Client(self.address, timeout=timeout)

    def __enter__(self) -> Self:
        self._scratch = tempfile.TemporaryDirectory(prefix="lockstep-server-")
        try:
            self._start(Path(self._scratch.name))
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Ends the process: SIGTERM, then SIGKILL after STOP_TIMEOUT_S. Idempotent."""
        process, self._process = self._process, None
        if process is not None:
            process.terminate()
            try:
                process.wait(timeout=STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        scratch, self._scratch = self._scratch, None
        if scratch is not None:
            scratch.cleanup()

    def _start(self, scratch: Path) -> None:
        port_file = scratch / "port"
        log_path = self._given_log_path or scratch / "log"
        command = [
            str(self._binary),
            f"--model={self._model_directory}",
            "--listen=127.0.0.1:0",
            f"--port_file={port_file}",
            *(f"--{name}={_flag_text(value)}" for name, value in self._flags.items()),
        ]
        with log_path.open("wb") as log:
            # Its own session: a Ctrl-C in the terminal reaches us, and we end the server in order.
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        self._port = self._await_port(self._process, port_file, log_path)

    def _await_port(self, process: subprocess.Popen[bytes], port_file: Path, log_path: Path) -> int:
        give_up_at = time.monotonic() + self._start_timeout
        while time.monotonic() < give_up_at:
            if process.poll() is not None:
                raise RuntimeError(
                    f"{self._binary.name} ended with status {process.returncode}:\n"
                    f"{_tail(log_path)}"
                )
            if port_file.is_file() and (text := port_file.read_text().strip()):
                return int(text)
            time.sleep(_POLL_INTERVAL_S)
        raise TimeoutError(
            f"{self._binary.name} did not accept calls within {self._start_timeout} s:\n"
            f"{_tail(log_path)}"
        )


def _flag_text(value: str | int | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _tail(log_path: Path) -> str:
    return "\n".join(log_path.read_text(errors="replace").splitlines()[-_LOG_TAIL_LINES:])
