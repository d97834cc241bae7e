"""Goal: a run shared by tasks never applies a step twice and never leaves a gap, cancelled calls among them."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import grpc
import lockstep
import pytest
from google.protobuf.message import Message
from lockstep.async_run import AsyncRun
from lockstep.run import RETRY_DELAYS_S
from lockstep.wire import training_pb2

from tests.client.python.fake_server import (
    WEIGHTS,
    FakeServer,
    Refusal,
    happened,
    with_async_client,
)

ADAMW = lockstep.AdamW(learning_rate=0.5)


def data(token: int) -> list[lockstep.Datum]:
    return [lockstep.Datum.from_text_pair([1, 2], [token])]


def train_answer(request: Message) -> Message:
    return training_pb2.TrainStepResponse(weights=WEIGHTS)


def numbers_and_tokens(server: FakeServer) -> list[tuple[int, int]]:
    return [(r.call.seq_id, r.data[0].target_tokens[-1]) for r in server.requests]


class Held:
    """Holds every TrainStep until it is released."""

    def __init__(self) -> None:
        self.began = threading.Event()
        self.released = threading.Event()

    def __call__(self, request: Message) -> Message:
        self.began.set()
        assert self.released.wait(timeout=60)
        return train_answer(request)


@contextmanager
def holding(server: FakeServer) -> Iterator[Held]:
    held = Held()
    server.answers = {"TrainStep": held}
    try:
        yield held
    finally:
        held.released.set()


def test_calls_of_all_kinds_share_one_count(server: FakeServer) -> None:
    server.answers = {
        "ForwardBackward": lambda request: training_pb2.ForwardBackwardResponse(weights=WEIGHTS),
        "OptimStep": lambda request: training_pb2.OptimStepResponse(weights=WEIGHTS),
        "TrainStep": train_answer,
    }

    async def check(client: lockstep.AsyncClient) -> None:
        async with client.run("experiment") as run:
            await run.forward_backward(data(3), loss="cross_entropy")
            await run.optim_step(adamw=ADAMW)
            await run.train_step(data(3), loss="cross_entropy", adamw=ADAMW)
        assert run.next_seq_id == 4
        assert client.run().run_id != client.run().run_id

    with_async_client(server, check)
    assert [request.call.seq_id for request in server.requests] == [1, 2, 3]
    assert {request.call.run_id for request in server.requests} == {"experiment"}


def test_tasks_get_numbers_in_the_order_they_called(server: FakeServer) -> None:
    server.answers = {"TrainStep": train_answer}

    async def check(client: lockstep.AsyncClient) -> None:
        run = client.run("r")
        steps = (run.train_step(data(i), loss="ppo", adamw=ADAMW) for i in range(1, 17))
        await asyncio.gather(*steps)
        assert run.next_seq_id == 17

    with_async_client(server, check)
    assert numbers_and_tokens(server) == [(i, i) for i in range(1, 17)]


def test_an_unavailable_server_is_asked_again_under_the_same_number(server: FakeServer) -> None:
    def answer(request: Message) -> Message:
        if len(server.requests) <= 3:
            raise Refusal(grpc.StatusCode.UNAVAILABLE, "the server is stopping")
        return train_answer(request)

    server.answers = {"TrainStep": answer}
    waits: list[float] = []

    async def pause(delay: float) -> None:
        waits.append(delay)

    async def check(client: lockstep.AsyncClient) -> None:
        run = AsyncRun(client, "r", next_seq_id=7, sleep=pause)
        await run.train_step(data(3), loss="ppo", adamw=ADAMW)
        assert run.next_seq_id == 8

    with_async_client(server, check)
    assert [request.call.seq_id for request in server.requests] == [7, 7, 7, 7]
    assert len({request.SerializeToString(deterministic=True) for request in server.requests}) == 1
    assert waits == list(RETRY_DELAYS_S[:3])


def test_a_server_that_stays_away_is_given_up(server: FakeServer) -> None:
    def answer(request: Message) -> Message:
        raise Refusal(grpc.StatusCode.UNAVAILABLE, "stage 1 is dead")

    server.answers = {"OptimStep": answer}
    waits: list[float] = []

    async def pause(delay: float) -> None:
        waits.append(delay)

    async def check(client: lockstep.AsyncClient) -> None:
        run = AsyncRun(client, "r", sleep=pause)
        with pytest.raises(lockstep.UnavailableError, match="stage 1 is dead"):
            await run.optim_step(adamw=ADAMW)
        assert run.next_seq_id == 1

    with_async_client(server, check)
    assert waits == list(RETRY_DELAYS_S)
    assert len(server.requests) == len(RETRY_DELAYS_S) + 1


def test_a_call_cancelled_before_its_next_attempt_keeps_its_number(server: FakeServer) -> None:
    def refuse(request: Message) -> Message:
        raise Refusal(grpc.StatusCode.UNAVAILABLE, "the server is stopping")

    server.answers = {"TrainStep": refuse}

    async def check(client: lockstep.AsyncClient) -> None:
        waiting = asyncio.Event()

        async def pause(delay: float) -> None:
            waiting.set()
            await asyncio.Event().wait()

        run = AsyncRun(client, "r", sleep=pause)
        task = asyncio.create_task(run.train_step(data(3), loss="ppo", adamw=ADAMW))
        await waiting.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        server.answers = {"TrainStep": train_answer}
        await run.train_step(data(3), loss="ppo", adamw=ADAMW)

    with_async_client(server, check)
    assert numbers_and_tokens(server) == [(1, 3), (1, 3)]


def test_a_refused_call_uses_up_no_number(server: FakeServer) -> None:
    def refuse(request: Message) -> Message:
        raise Refusal(grpc.StatusCode.INVALID_ARGUMENT, "data[0].advantages[1] is NaN")

    server.answers = {"TrainStep": refuse}

    async def check(client: lockstep.AsyncClient) -> None:
        run = client.run("r")
        with pytest.raises(lockstep.InvalidArgumentError, match="is NaN"):
            await run.train_step(data(3), loss="ppo", adamw=ADAMW)
        assert run.next_seq_id == 1

    with_async_client(server, check)


def test_a_call_past_its_deadline_keeps_its_number(server: FakeServer) -> None:
    async def check(client: lockstep.AsyncClient) -> None:
        run = client.run("r")
        with holding(server), pytest.raises(lockstep.DeadlineExceededError):
            await run.train_step(data(3), loss="ppo", adamw=ADAMW, timeout=0.01)
        assert run.next_seq_id == 1

    with_async_client(server, check)


def test_a_call_cancelled_in_flight_keeps_its_number(server: FakeServer) -> None:
    async def check(client: lockstep.AsyncClient) -> None:
        run = client.run("r")
        with holding(server) as held:
            task = asyncio.create_task(run.train_step(data(3), loss="ppo", adamw=ADAMW))
            assert await happened(held.began)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert run.next_seq_id == 1
        await run.train_step(data(3), loss="ppo", adamw=ADAMW)
        assert run.next_seq_id == 2

    with_async_client(server, check)
    # The server tells by the number that it is the same call.
    assert numbers_and_tokens(server) == [(1, 3), (1, 3)]
    first, second = server.requests
    assert first == second


def test_a_call_cancelled_while_it_waits_its_turn_is_never_made(server: FakeServer) -> None:
    async def check(client: lockstep.AsyncClient) -> None:
        run = client.run("r")
        with holding(server) as held:
            tasks = [
                asyncio.create_task(run.train_step(data(i), loss="ppo", adamw=ADAMW))
                for i in range(1, 4)
            ]
            assert await happened(held.began)
            tasks[1].cancel()
            with pytest.raises(asyncio.CancelledError):
                await tasks[1]
        await asyncio.gather(tasks[0], tasks[2])
        assert run.next_seq_id == 3

    with_async_client(server, check)
    assert numbers_and_tokens(server) == [(1, 1), (2, 3)]
