"""A Lockstep server in this process whose answers the tests write: what the client does is seen from the other side."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import grpc
import lockstep
import numpy as np
from google.protobuf.message import Message
from lockstep.wire import generation_pb2, lockstep_pb2_grpc, types_pb2

WEIGHTS = types_pb2.WeightsState(
    state_id=bytes(range(32)), weight_version=3, numerics_id="fp32-v1-l1"
)

UnaryAnswer = Callable[[Message], Message]
StreamAnswer = Callable[
    [generation_pb2.GenerateRequest, grpc.ServicerContext],
    Iterator[generation_pb2.GenerateResponse],
]


class Refusal(Exception):
    """Raised by an answer to end the call with a status code."""

    def __init__(self, code: grpc.StatusCode, details: str) -> None:
        super().__init__(details)
        self.code = code
        self.details = details


class FakeServer(lockstep_pb2_grpc.LockstepServicer):
    """Answers each unary call by the function set in `answers`, Generate by `generate`; keeps the requests."""

    def __init__(self) -> None:
        self.address = ""
        self.answers: dict[str, UnaryAnswer] = {}
        self.generate: StreamAnswer = lambda request, context: iter(())
        self.requests: list[Message] = []
        self._mutex = threading.Lock()

    def Generate(
        self, request: generation_pb2.GenerateRequest, context: grpc.ServicerContext
    ) -> Iterator[generation_pb2.GenerateResponse]:
        self._keep(request)
        try:
            yield from self.generate(request, context)
        except Refusal as refusal:
            context.abort(refusal.code, refusal.details)

    def _keep(self, request: Message) -> None:
        with self._mutex:
            self.requests.append(request)

    def _answer(self, name: str, request: Message, context: grpc.ServicerContext) -> Message:
        self._keep(request)
        try:
            return self.answers[name](request)
        except Refusal as refusal:
            context.abort(refusal.code, refusal.details)
            raise AssertionError("abort() raises") from refusal


def _unary(name: str) -> Callable[[FakeServer, Message, grpc.ServicerContext], Message]:
    return lambda self, request, context: self._answer(name, request, context)


for _name in (
    "GetServerInfo",
    "Score",
    "ForwardBackward",
    "OptimStep",
    "TrainStep",
    "CheckParity",
    "ExportModel",
):
    setattr(FakeServer, _name, _unary(_name))


@contextmanager
def serving() -> Iterator[FakeServer]:
    """A FakeServer on a free port of the loopback address."""
    servicer = FakeServer()
    server = grpc.server(ThreadPoolExecutor(max_workers=64))
    lockstep_pb2_grpc.add_LockstepServicer_to_server(servicer, server)
    servicer.address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    try:
        yield servicer
    finally:
        server.stop(grace=None).wait()


def with_async_client(
    server: FakeServer, body: Callable[[lockstep.AsyncClient], Awaitable[None]]
) -> None:
    """Runs `body` in an event loop of its own, with a client connected to the server."""

    async def main() -> None:
        async with lockstep.AsyncClient(server.address) as client:
            await body(client)

    asyncio.run(main())


async def happened(event: threading.Event) -> bool:
    """Waits, without holding up the event loop, for what one of the server's threads sets."""
    return await asyncio.to_thread(event.wait, timeout=60)


def header(seed: int) -> generation_pb2.GenerateResponse:
    return generation_pb2.GenerateResponse(
        header=generation_pb2.GenerateHeader(seed_used=seed, weights=WEIGHTS)
    )


def delta(
    index: int,
    tokens: Sequence[int],
    logprobs: np.ndarray,
    finish: int = types_pb2.FINISH_REASON_UNSPECIFIED,
    stop_token_id: int = 0,
) -> generation_pb2.GenerateResponse:
    """A message with new tokens of one sample; raw log-probs are the log-probs negated."""
    return generation_pb2.GenerateResponse(
        deltas=[
            generation_pb2.SampleDelta(
                sample_index=index,
                token_ids=tokens,
                logprobs=logprobs.tolist(),
                raw_logprobs=(-logprobs).tolist(),
                finish_reason=finish,
                stop_token_id=stop_token_id,
            )
        ]
    )


def done() -> generation_pb2.GenerateResponse:
    return generation_pb2.GenerateResponse(done=generation_pb2.GenerateSummary())
