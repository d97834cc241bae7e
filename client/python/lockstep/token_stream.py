"""The tokens of one Generate call as they are drawn: for threads, and for asyncio."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Iterator
from types import TracebackType
from typing import Protocol, Self

from lockstep.errors import raising_lockstep_errors
from lockstep.generation import Delta
from lockstep.sampling import WeightsState
from lockstep.wire import generation_pb2


class GenerateCall(Protocol):
    """What grpc returns for a Generate call."""

    def __next__(self) -> generation_pb2.GenerateResponse: ...

    def cancel(self) -> object: ...


class AsyncGenerateCall(Protocol):
    """What grpc.aio returns for a Generate call."""

    def __aiter__(self) -> AsyncIterator[generation_pb2.GenerateResponse]: ...

    def cancel(self) -> object: ...


class BaseTokenStream:
    """Deltas that were received and not yet handed out, and what the header told.

    `seed_used` and `weights` are there from the first delta on.
    """

    def __init__(self, call: GenerateCall | AsyncGenerateCall) -> None:
        self._cancel = call.cancel
        self._pending: deque[Delta] = deque()
        self._closed = False
        self.seed_used: int | None = None
        self.weights: WeightsState | None = None

    def close(self) -> None:
        """Cancels what is still running. Idempotent; further deltas are not handed out."""
        self._closed = True
        self._pending.clear()
        self._cancel()

    def _accept(self, message: generation_pb2.GenerateResponse) -> None:
        if message.HasField("header"):
            self.seed_used = message.header.seed_used
            self.weights = WeightsState.from_wire(message.header.weights)
        self._pending.extend(Delta.from_wire(delta) for delta in message.deltas)


class TokenStream(BaseTokenStream, Iterator[Delta]):
    """Tokens as they are drawn. Closing it, or leaving its `with` block, cancels the call.

    `seed_used` and `weights` are there from the first delta on. One thread at a time.
    """

    def __init__(self, call: GenerateCall) -> None:
        super().__init__(call)
        self._messages = call

    def __next__(self) -> Delta:
        while not self._pending:
            if self._closed:
                raise StopIteration
            with raising_lockstep_errors():
                self._accept(next(self._messages))
        return self._pending.popleft()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


class AsyncTokenStream(BaseTokenStream, AsyncIterator[Delta]):
    """As TokenStream, by `async with` and `async for`. One task at a time."""

    def __init__(self, call: AsyncGenerateCall) -> None:
        super().__init__(call)
        self._messages = aiter(call)

    async def __anext__(self) -> Delta:
        while not self._pending:
            if self._closed:
                raise StopAsyncIteration
            with raising_lockstep_errors():
                self._accept(await anext(self._messages))
        return self._pending.popleft()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
