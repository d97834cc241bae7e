"""A run for asyncio: the numbered sequence of calls that change a model's weights."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar, Unpack

from lockstep.datum import Datum
from lockstep.errors import UnavailableError
from lockstep.run import RETRY_DELAYS_S
from lockstep.training import (
    AdamW,
    ForwardBackwardResult,
    LossOptions,
    OptimStepResult,
    TrainStepResult,
)

if TYPE_CHECKING:
    from lockstep.async_client import AsyncClient

Result = TypeVar("Result")


class AsyncRun:
    """Numbers calls as Run does; only answered ones count, and a server away is asked again.

    Cancelling a task is to its call what a deadline is to one of Run: it keeps its number, and may
    or may not have been applied; the same call with the same arguments tells. Another call made
    instead fails with AlreadyExistsError if the cancelled one was applied.

    Tasks may call at the same time: calls are made one after the other, in the order they came.
    Comes from AsyncClient.run(); leaving the `async with` block only marks where the run ends.
    """

    def __init__(
        self,
        client: AsyncClient,
        run_id: str | None = None,
        *,
        next_seq_id: int = 1,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.run_id = run_id if run_id is not None else uuid.uuid4().hex
        self._client = client
        self._sleep = sleep
        self._mutex = asyncio.Lock()  # first come, first served
        self._next_seq_id = next_seq_id

    @property
    def next_seq_id(self) -> int:
        """The number of the next call."""
        return self._next_seq_id

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        pass

    async def forward_backward(
        self,
        data: Sequence[Datum],
        *,
        timeout: float | None = None,
        **options: Unpack[LossOptions],
    ) -> ForwardBackwardResult:
        """Adds the gradients of `loss` over `data`; see Run."""
        return await self._numbered(
            lambda seq_id: self._client.forward_backward(
                data, run_id=self.run_id, seq_id=seq_id, timeout=timeout, **options
            )
        )

    async def optim_step(self, *, adamw: AdamW, timeout: float | None = None) -> OptimStepResult:
        """Applies AdamW to the gathered gradients and clears them."""
        return await self._numbered(
            lambda seq_id: self._client.optim_step(
                run_id=self.run_id, seq_id=seq_id, adamw=adamw, timeout=timeout
            )
        )

    async def train_step(
        self,
        data: Sequence[Datum],
        *,
        adamw: AdamW,
        timeout: float | None = None,
        **options: Unpack[LossOptions],
    ) -> TrainStepResult:
        """forward_backward and optim_step in one call."""
        return await self._numbered(
            lambda seq_id: self._client.train_step(
                data, run_id=self.run_id, seq_id=seq_id, adamw=adamw, timeout=timeout, **options
            )
        )

    async def _numbered(self, call: Callable[[int], Awaitable[Result]]) -> Result:
        async with self._mutex:
            result = await self._retried(lambda: call(self._next_seq_id))
            self._next_seq_id += 1
            return result

    async def _retried(self, call: Callable[[], Awaitable[Result]]) -> Result:
        for delay in RETRY_DELAYS_S:
            try:
                return await call()
            except UnavailableError:
                await self._sleep(delay)
        return await call()
