"""A run: the numbered sequence of calls that change a model's weights."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar, Unpack

from lockstep.datum import Datum
from lockstep.errors import UnavailableError
from lockstep.training import (
    AdamW,
    ForwardBackwardResult,
    LossOptions,
    OptimStepResult,
    TrainStepResult,
)

if TYPE_CHECKING:
    from lockstep.client import Client

Result = TypeVar("Result")

# Waits before another attempt, in seconds: half a minute in all, which a server's restart may take.
RETRY_DELAYS_S = (0.1, 0.2, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)


class Run:
    """Numbers the calls of forward_backward, optim_step and train_step; only answered ones count.

    A call that finds the server away (UNAVAILABLE) is tried again under its number after each of
    RETRY_DELAYS_S: if it had been applied, the server returns the stored answer and changes
    nothing. After DeadlineExceededError the call may or may not have been applied; the same call
    with the same arguments tells, for it keeps the number.

    Thread safe: calls are made one after the other. Comes from Client.run(); the connection stays
    the client's, and leaving the `with` block only marks where the run ends.
    """

    def __init__(
        self,
        client: Client,
        run_id: str | None = None,
        *,
        next_seq_id: int = 1,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.run_id = run_id if run_id is not None else uuid.uuid4().hex
        self._client = client
        self._sleep = sleep
        self._mutex = threading.Lock()
        self._next_seq_id = next_seq_id

    @property
    def next_seq_id(self) -> int:
        """The number of the next call."""
        return self._next_seq_id

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        pass

    def forward_backward(
        self,
        data: Sequence[Datum],
        *,
        timeout: float | None = None,
        **options: Unpack[LossOptions],
    ) -> ForwardBackwardResult:
        """Adds the gradients of `loss` ("cross_entropy", "ppo" or a Loss) over `data`.

        The data of one optimizer step may come in any number of calls. Options: LossOptions.
        """
        return self._numbered(
            lambda seq_id: self._client.forward_backward(
                data, run_id=self.run_id, seq_id=seq_id, timeout=timeout, **options
            )
        )

    def optim_step(self, *, adamw: AdamW, timeout: float | None = None) -> OptimStepResult:
        """Applies AdamW to the gathered gradients and clears them."""
        return self._numbered(
            lambda seq_id: self._client.optim_step(
                run_id=self.run_id, seq_id=seq_id, adamw=adamw, timeout=timeout
            )
        )

    def train_step(
        self,
        data: Sequence[Datum],
        *,
        adamw: AdamW,
        timeout: float | None = None,
        **options: Unpack[LossOptions],
    ) -> TrainStepResult:
        """forward_backward and optim_step in one call. Options: LossOptions."""
        return self._numbered(
            lambda seq_id: self._client.train_step(
                data, run_id=self.run_id, seq_id=seq_id, adamw=adamw, timeout=timeout, **options
            )
        )

    def _numbered(self, call: Callable[[int], Result]) -> Result:
        with self._mutex:
            result = self._retried(lambda: call(self._next_seq_id))
            self._next_seq_id += 1
            return result

    def _retried(self, call: Callable[[], Result]) -> Result:
        for delay in RETRY_DELAYS_S:
            try:
                return call()
            except UnavailableError:
                self._sleep(delay)
        return call()
