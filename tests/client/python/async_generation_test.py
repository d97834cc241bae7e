"""Goal: streams hand out what came and are cancelled when left; many requests are bounded, ordered and end together."""

import asyncio
import threading
from collections.abc import Iterator

import grpc
import lockstep
import numpy as np
import pytest
from lockstep.wire import generation_pb2, types_pb2

from tests.client.python.fake_server import (
    FakeServer,
    Refusal,
    delta,
    done,
    happened,
    header,
    with_async_client,
)

LENGTH = types_pb2.FINISH_REASON_LENGTH


class Endless:
    """Answers Generate with one token, and then with nothing until the call is cancelled."""

    def __init__(self, count: int = 1) -> None:
        self.began = [threading.Event() for _ in range(count)]  # by the prompt's first token
        self.ended = [threading.Event() for _ in range(count)]

    def __call__(
        self, request: generation_pb2.GenerateRequest, context: grpc.ServicerContext
    ) -> Iterator[generation_pb2.GenerateResponse]:
        index = request.prompt_token_ids[0]
        context.add_callback(self.ended[index].set)
        yield header(1)
        yield delta(0, [10], np.float32([-1]))
        self.began[index].set()
        self.ended[index].wait()


def test_a_stream_hands_out_every_delta_in_order(server: FakeServer) -> None:
    server.generate = lambda request, context: iter(
        [
            header(7),
            delta(1, [20], np.float32([-1])),
            delta(0, [10, 11], np.float32([-2, -3]), LENGTH),
            delta(1, [21], np.float32([-4]), LENGTH),
            done(),
        ]
    )

    async def check(client: lockstep.AsyncClient) -> None:
        async with client.stream([1], num_samples=2) as stream:
            deltas = [delta async for delta in stream]
            assert stream.seed_used == 7
            assert stream.weights is not None and stream.weights.weight_version == 3
        assert [(d.sample_index, d.tokens.tolist()) for d in deltas] == [
            (1, [20]),
            (0, [10, 11]),
            (1, [21]),
        ]

    with_async_client(server, check)


def test_leaving_a_stream_early_cancels_the_call(server: FakeServer) -> None:
    server.generate = endless = Endless()

    async def check(client: lockstep.AsyncClient) -> None:
        async with client.stream([0]) as stream:
            async for first in stream:
                assert first.tokens.tolist() == [10]
                break
            assert not endless.ended[0].is_set()
        assert await happened(endless.ended[0])
        assert [delta async for delta in stream] == []

    with_async_client(server, check)


def test_cancelling_the_task_cancels_the_call(server: FakeServer) -> None:
    server.generate = endless = Endless()

    async def check(client: lockstep.AsyncClient) -> None:
        task = asyncio.create_task(client.generate([0]))
        assert await happened(endless.began[0])
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await happened(endless.ended[0])

    with_async_client(server, check)


def test_closing_the_client_fails_what_is_running(server: FakeServer) -> None:
    server.generate = endless = Endless()

    async def check(client: lockstep.AsyncClient) -> None:
        task = asyncio.create_task(client.generate([0]))
        assert await happened(endless.began[0])
        await client.close()
        # Nobody has cancelled the task, so it is not asyncio's CancelledError.
        with pytest.raises(lockstep.CancelledError):
            await task

    with_async_client(server, check)


def test_a_stream_that_breaks_off_raises(server: FakeServer) -> None:
    server.generate = lambda request, context: iter([header(1), delta(0, [10], np.float32([-1]))])

    async def check(client: lockstep.AsyncClient) -> None:
        with pytest.raises(lockstep.LockstepError, match="ended before sample 0 did"):
            await client.generate([1])

    with_async_client(server, check)


def test_generate_many_keeps_the_order_of_the_prompts(server: FakeServer) -> None:
    # Later prompts are answered first: each waits for the one after it.
    count = 8
    answered = [threading.Event() for _ in range(count + 1)]
    answered[count].set()

    def answer(
        request: generation_pb2.GenerateRequest, context: grpc.ServicerContext
    ) -> Iterator[generation_pb2.GenerateResponse]:
        index = request.prompt_token_ids[0]
        assert answered[index + 1].wait(timeout=60)
        yield header(request.seed)
        yield delta(0, [100 + index], np.float32([-index]), LENGTH)
        answered[index].set()

    server.generate = answer

    async def check(client: lockstep.AsyncClient) -> None:
        prompts = [[i] for i in range(count)]
        results = await client.generate_many(prompts, seed=11, concurrency=count)
        assert [int(r.samples[0].tokens[0]) for r in results] == [100 + i for i in range(count)]
        assert [r.seed_used for r in results] == [lockstep.derive_seed(11, i) for i in range(count)]
        assert await client.generate_many([]) == []

    with_async_client(server, check)


def test_generate_many_opens_as_many_requests_as_allowed(server: FakeServer) -> None:
    # Every request waits for two others: fewer than 3 at one time would never end.
    together = threading.Barrier(3, timeout=60)
    mutex = threading.Lock()
    open_now, open_most = 0, 0

    def answer(
        request: generation_pb2.GenerateRequest, context: grpc.ServicerContext
    ) -> Iterator[generation_pb2.GenerateResponse]:
        nonlocal open_now, open_most
        with mutex:
            open_now += 1
            open_most = max(open_most, open_now)
        together.wait()
        yield header(1)
        # Counted down before the client can see the end and begin the next one.
        with mutex:
            open_now -= 1
        yield delta(0, [1], np.float32([-1]), LENGTH)

    server.generate = answer

    async def check(client: lockstep.AsyncClient) -> None:
        assert len(await client.generate_many([[1]] * 24, concurrency=3)) == 24

    with_async_client(server, check)
    assert open_most == 3


def test_the_first_failure_of_generate_many_cancels_the_rest(server: FakeServer) -> None:
    endless = Endless(count=4)

    def answer(
        request: generation_pb2.GenerateRequest, context: grpc.ServicerContext
    ) -> Iterator[generation_pb2.GenerateResponse]:
        if request.prompt_token_ids[0] < 3:
            yield from endless(request, context)
        for began in endless.began[:3]:
            assert began.wait(timeout=60)
        raise Refusal(grpc.StatusCode.RESOURCE_EXHAUSTED, "queue_depth_max is 1024")

    server.generate = answer

    async def check(client: lockstep.AsyncClient) -> None:
        with pytest.raises(lockstep.ResourceExhaustedError, match="queue_depth_max is 1024"):
            await client.generate_many([[i] for i in range(100)], concurrency=4)
        for ended in endless.ended[:3]:
            assert await happened(ended)

    with_async_client(server, check)
    assert len(server.requests) == 4


def test_cancelling_generate_many_cancels_every_request(server: FakeServer) -> None:
    server.generate = endless = Endless(count=4)

    async def check(client: lockstep.AsyncClient) -> None:
        task = asyncio.create_task(client.generate_many([[i] for i in range(4)]))
        for began in endless.began:
            assert await happened(began)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        for ended in endless.ended:
            assert await happened(ended)

    with_async_client(server, check)
