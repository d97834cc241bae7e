"""A progress bar that costs nothing, and imports nothing, while it is not shown."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Any, Self


class ProgressBar:
    """Counts to `total`; a context manager. advance() may be called from many threads."""

    def __init__(self, label: str, total: int, *, shown: bool) -> None:
        self._mutex = threading.Lock()
        self._progress: Any = None
        if shown:
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn

            self._progress = Progress(
                "{task.description}", BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
            )
            self._task = self._progress.add_task(label, total=total)

    def advance(self) -> None:
        if self._progress is not None:
            with self._mutex:
                self._progress.advance(self._task)

    def __enter__(self) -> Self:
        if self._progress is not None:
            self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._progress is not None:
            self._progress.stop()
