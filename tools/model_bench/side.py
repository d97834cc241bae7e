"""A side of the comparison as the bench sees it: a warm process that is told what to do."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

TOOLS = Path(__file__).resolve().parent.parent
# How long a side is given to end by itself once its stdin is closed, in seconds.
STOP_TIMEOUT_S = 40.0
_LOG_TAIL_LINES = 20


class SideError(Exception):
    """A side ended, or could not do what it was told."""


@dataclass(frozen=True)
class SideProgram:
    """How a side is started: a module of this package, in a Python environment."""

    name: str
    python: Path
    module: str
    arguments: Sequence[str]
    environment: Mapping[str, str]


class Side:
    """A started side, from `with` to the end of its block. Started when it is entered, which loads its model."""

    def __init__(self, program: SideProgram, log_path: Path) -> None:
        self.name = program.name
        self._log_path = log_path
        read_fd, write_fd = os.pipe()
        with log_path.open("wb") as log:
            self._process = subprocess.Popen(
                [
                    str(program.python),
                    "-m",
                    f"model_bench.{program.module}",
                    f"--answers-fd={write_fd}",
                    *program.arguments,
                ],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                text=True,
                bufsize=1,
                pass_fds=[write_fd],
                env=os.environ | {"PYTHONPATH": str(TOOLS)} | dict(program.environment),
                # Ctrl-C reaches the bench, which ends its sides in order.
                start_new_session=True,
            )
        os.close(write_fd)
        self._answers = os.fdopen(read_fd, "r")

    def __enter__(self) -> Self:
        try:
            self._read_answer()
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

    def call(self, unit: str, **arguments: object) -> Any:  # noqa: ANN401
        """Does a unit of work and returns what it returned; SideError when it failed."""
        if self._process.stdin is None:
            raise SideError(f"{self.name} has no stdin")
        # Of a process that has ended, reading the answer says more than this could.
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps({"unit": unit, "arguments": arguments}) + "\n")
        return self._read_answer()

    def rate(self, unit: str, **sizes: int) -> float:
        """Tokens a second of a unit, whose answer is its tokens and seconds."""
        answer = self.call(unit, **sizes)
        return float(answer["tokens"] / answer["seconds"])

    def cpu_seconds(self) -> float:
        """Processor time of the process and its descendants so far."""
        return processor_seconds(self._process.pid)

    def stop(self) -> None:
        """Closes stdin, which ends the process; kills it after STOP_TIMEOUT_S. Idempotent."""
        if self._process.stdin is not None and not self._process.stdin.closed:
            self._process.stdin.close()
        try:
            self._process.wait(timeout=STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._answers.close()

    def _read_answer(self) -> Any:  # noqa: ANN401
        line = self._answers.readline()
        if not line:
            tail = self._log_path.read_text(errors="replace").splitlines()[-_LOG_TAIL_LINES:]
            raise SideError(f"{self.name} ended:\n" + "\n".join(tail))
        answer = json.loads(line)
        if "error" in answer:
            raise SideError(f"{self.name}: {answer['error']} (log: {self._log_path})")
        return answer["value"]


def processor_seconds(pid: int, proc: Path = Path("/proc")) -> float:
    """User and system time of a process and all that descend from it, from /proc/PID/stat."""
    ticks: dict[int, int] = {}
    parents: dict[int, int] = {}
    for folder in proc.iterdir():
        if not folder.name.isdigit():
            continue
        try:
            stat = (folder / "stat").read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue  # ended meanwhile
        # The name, in parentheses, may hold anything; fields are counted after it (proc(5)).
        fields = stat.rpartition(")")[2].split()
        parents[int(folder.name)] = int(fields[1])
        ticks[int(folder.name)] = int(fields[11]) + int(fields[12])
    family = {pid}
    grown = True
    while grown:
        children = {child for child, parent in parents.items() if parent in family}
        grown = not children <= family
        family |= children
    return sum(ticks.get(member, 0) for member in family) / os.sysconf("SC_CLK_TCK")


def settle() -> None:
    """Lets the threads of the side that just worked fall asleep: OpenMP's spin for some milliseconds."""
    time.sleep(0.1)
