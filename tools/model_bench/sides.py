"""Which sides there are, how each is started, and that those that wait use no processor."""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from model_bench.side import Side, SideProgram, settle


@dataclass(frozen=True)
class Installation:
    """Where everything is, and how many threads each side may use."""

    server_binary: Path
    model: Path  # Hugging Face directory
    gguf: Path
    python: Path  # of the project's environment
    peer_python: Path
    log_directory: Path
    threads: int

    def program(self, name: str) -> SideProgram:
        """lockstep-{bf16,fp32}, llama.cpp, torch-{fp32,bf16,autocast}."""
        kind, _, variant = name.partition("-")
        threads = f"--threads={self.threads}"
        # torch would otherwise start with a thread a core before it is told.
        environment = {"OMP_NUM_THREADS": str(self.threads), "HF_HUB_OFFLINE": "1"}
        if kind == "lockstep":
            arguments = [
                f"--server-binary={self.server_binary}",
                f"--model={self.model}",
                f"--profile={variant}",
                f"--server-log={self.log_directory / f'{name}-server.log'}",
            ]
            return SideProgram(name, self.python, "lockstep_side", [*arguments, threads], {})
        if kind == "torch":
            arguments = [f"--model={self.model}", f"--precision={variant}", threads]
            return SideProgram(name, self.peer_python, "torch_side", arguments, environment)
        if name == "llama.cpp":
            arguments = [f"--model={self.gguf}", threads]
            return SideProgram(name, self.peer_python, "llama_side", arguments, environment)
        raise ValueError(f"no side {name!r}")


@dataclass
class Sides:
    """Sides that are alive, started when first asked for; a context manager that ends them all.

    One works at a time. What the others use of the processor meanwhile is watched: a peer that
    spins while we work would make us slow, and the other way round.
    """

    installation: Installation
    # What sides that waited used of the processor while another worked, and for how long that was.
    idle_cpu_seconds: float = 0.0
    watched_seconds: float = 0.0
    _alive: dict[str, Side] = field(default_factory=dict)
    _stack: ExitStack = field(default_factory=ExitStack)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stack.close()

    @property
    def idle_share(self) -> float:
        """Of one core."""
        return self.idle_cpu_seconds / self.watched_seconds if self.watched_seconds else 0.0

    def get(self, name: str) -> Side:
        if name not in self._alive:
            program = self.installation.program(name)
            log_path = self.installation.log_directory / f"{name}.log"
            self._alive[name] = self._stack.enter_context(Side(program, log_path))
        return self._alive[name]

    def keep_only(self, names: set[str]) -> None:
        """Ends the sides that are not named, for their memory."""
        for name in list(self._alive):
            if name not in names:
                self._alive.pop(name).stop()

    def rate(self, name: str, unit: str, sizes: dict[str, int]) -> float:
        """Tokens a second of one unit of a side, while all others wait."""
        side = self.get(name)
        settle()
        waiting = [other for other in self._alive.values() if other is not side]
        before = sum(other.cpu_seconds() for other in waiting)
        began = time.monotonic()
        rate = side.rate(unit, **sizes)
        self.watched_seconds += time.monotonic() - began
        self.idle_cpu_seconds += sum(other.cpu_seconds() for other in waiting) - before
        return rate

    def call(self, name: str, unit: str, **arguments: Any) -> Any:  # noqa: ANN401
        return self.get(name).call(unit, **arguments)
