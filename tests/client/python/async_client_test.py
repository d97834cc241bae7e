"""Goal: the asyncio client is the blocking one with `await`: surface, requests, answers and errors.

Method: both make the same call to the same fake server; what it received and what they return must be equal.
"""

import asyncio
import dataclasses
import inspect
import threading
from collections.abc import Iterator
from typing import Any

import grpc
import lockstep
import numpy as np
import pytest
from google.protobuf.message import Message
from lockstep.wire import generation_pb2, lockstep_pb2, training_pb2, types_pb2

from tests.client.python.fake_server import (
    WEIGHTS,
    FakeServer,
    Refusal,
    delta,
    header,
    with_async_client,
)

NAN = float("nan")
DATA = [lockstep.Datum.from_text_pair([1, 2], [3])]
NUMBER: dict[str, Any] = {"run_id": "r", "seq_id": 9}
ADAMW = lockstep.AdamW(learning_rate=0.5, weight_decay=0.25)
RESULTS = [training_pb2.DatumResult(logprobs=[NAN, -0.125])]

# The answer to every call that has one.
ANSWERS = {
    "GetServerInfo": lockstep_pb2.GetServerInfoResponse(server_version="0.1.0", weights=WEIGHTS),
    "Score": generation_pb2.ScoreResponse(
        scores=[generation_pb2.SequenceScore(logprobs=[NAN, -0.5])], weights=WEIGHTS
    ),
    "ForwardBackward": training_pb2.ForwardBackwardResponse(results=RESULTS, weights=WEIGHTS),
    "OptimStep": training_pb2.OptimStepResponse(weights=WEIGHTS),
    "TrainStep": training_pb2.TrainStepResponse(results=RESULTS, weights=WEIGHTS),
    "CheckParity": lockstep_pb2.CheckParityResponse(passed=True, weights=WEIGHTS),
    "ExportModel": lockstep_pb2.ExportModelResponse(path="/exports/a", weights=WEIGHTS),
}

# Every call by its method, with options that are not the defaults.
CALLS: list[tuple[str, list[Any], dict[str, Any]]] = [
    ("info", [], {}),
    ("score", [[[1, 2], [3]]], {"temperature": 0.5}),
    ("forward_backward", [DATA], NUMBER | {"loss": "ppo", "micro_batch_size": 3}),
    ("optim_step", [], NUMBER | {"adamw": ADAMW}),
    ("train_step", [DATA], NUMBER | {"loss": "ppo", "adamw": ADAMW, "loss_agg_mode": "token-mean"}),
    ("check_parity", [[[1, 2]]], {"num_samples": 2, "max_tokens": 8, "temperature": 0.5}),
    ("export_model", ["a"], {}),
    ("generate", [[1, 2]], {"max_tokens": 7, "seed": 5, "stop_token_ids": [9]}),
    ("generate", [[1]], {"sampling": lockstep.SamplingParams(0.5, top_k=7), "ignore_eos": True}),
    ("generate_many", [[[1], [2]]], {"seed": 5, "concurrency": 1}),
]


def public_members(kind: type) -> dict[str, Any]:
    return {name: value for name, value in inspect.getmembers(kind) if not name.startswith("_")}


@pytest.mark.parametrize(
    ("blocking", "asynchronous"),
    [
        (lockstep.Client, lockstep.AsyncClient),
        (lockstep.Run, lockstep.AsyncRun),
        (lockstep.TokenStream, lockstep.AsyncTokenStream),
    ],
)
def test_the_surface_is_that_of_the_blocking_class(blocking: type, asynchronous: type) -> None:
    expected, actual = public_members(blocking), public_members(asynchronous)
    assert actual.keys() == expected.keys()
    for name, member in expected.items():
        if callable(member):
            parameters = inspect.signature(actual[name]).parameters
            assert parameters == inspect.signature(member).parameters, name


@pytest.mark.parametrize(
    ("method", "arguments", "options"), CALLS, ids=[f"{i}_{c[0]}" for i, c in enumerate(CALLS)]
)
def test_requests_and_answers_are_those_of_the_blocking_client(
    server: FakeServer,
    client: lockstep.Client,
    method: str,
    arguments: list[Any],
    options: dict[str, Any],
) -> None:
    def generate(
        request: generation_pb2.GenerateRequest, context: grpc.ServicerContext
    ) -> Iterator[generation_pb2.GenerateResponse]:
        yield header(request.seed)
        finish = types_pb2.FINISH_REASON_LENGTH
        yield delta(0, [4, *request.prompt_token_ids], np.float32([-1, -2]), finish)

    server.answers = {name: lambda request, a=answer: a for name, answer in ANSWERS.items()}
    server.generate = generate
    expected = getattr(client, method)(*arguments, **options)
    expected_requests, server.requests = server.requests, []
    actual = []

    async def call(async_client: lockstep.AsyncClient) -> None:
        actual.append(await getattr(async_client, method)(*arguments, **options))

    with_async_client(server, call)
    assert server.requests == expected_requests
    np.testing.assert_equal(as_plain(actual[0]), as_plain(expected))


def as_plain(answer: object) -> object:
    if isinstance(answer, list):
        return [as_plain(element) for element in answer]
    assert dataclasses.is_dataclass(answer) and not isinstance(answer, type)
    return dataclasses.asdict(answer)


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (grpc.StatusCode.INVALID_ARGUMENT, lockstep.InvalidArgumentError),
        (grpc.StatusCode.UNAVAILABLE, lockstep.UnavailableError),
        (grpc.StatusCode.CANCELLED, lockstep.CancelledError),
        (grpc.StatusCode.UNKNOWN, lockstep.LockstepError),
    ],
)
def test_errors_are_named_after_the_status_code(
    server: FakeServer, code: grpc.StatusCode, error: type[lockstep.LockstepError]
) -> None:
    def refuse(request: Message) -> Message:
        raise Refusal(code, "sequences[2].token_ids[1] is 259")

    def refuse_generate(*_: object) -> Iterator[generation_pb2.GenerateResponse]:
        raise Refusal(code, "sequences[2].token_ids[1] is 259")
        yield

    server.answers = {"Score": refuse}
    server.generate = refuse_generate

    async def check(client: lockstep.AsyncClient) -> None:
        for call in (client.score([[1]]), client.generate([1])):
            with pytest.raises(lockstep.LockstepError) as caught:
                await call
            assert type(caught.value) is error
            assert str(caught.value) == f"{code.name}: sequences[2].token_ids[1] is 259"

    with_async_client(server, check)


def test_a_call_past_its_timeout_fails(server: FakeServer) -> None:
    given_up = threading.Event()

    def answer(request: Message) -> Message:
        assert given_up.wait(timeout=60)
        return ANSWERS["GetServerInfo"]

    server.answers = {"GetServerInfo": answer}

    async def check(client: lockstep.AsyncClient) -> None:
        with pytest.raises(lockstep.DeadlineExceededError):
            await client.info(timeout=0.01)
        given_up.set()

    with_async_client(server, check)


def test_unknown_names_are_refused_before_a_call(server: FakeServer) -> None:
    async def check(client: lockstep.AsyncClient) -> None:
        with pytest.raises(ValueError, match="loss is 'dpo'; known are cross_entropy, ppo"):
            await client.forward_backward([], run_id="r", seq_id=1, loss="dpo")
        misspelt: dict[str, Any] = {"max_token": 5}
        with pytest.raises(TypeError, match="max_token"):
            await client.generate([1], **misspelt)

    with_async_client(server, check)
    assert server.requests == []


def test_waiting_for_a_server(server: FakeServer) -> None:
    async def check() -> None:
        async with lockstep.AsyncClient(server.address) as client:
            await client.wait_until_ready(timeout=60)
        async with lockstep.AsyncClient("127.0.0.1:1") as client:
            with pytest.raises(TimeoutError, match=r"no server at 127\.0\.0\.1:1"):
                await client.wait_until_ready(timeout=0.01)

    asyncio.run(check())


def test_is_made_in_an_event_loop() -> None:
    with pytest.raises(RuntimeError, match="no running event loop"):
        lockstep.AsyncClient("127.0.0.1:1")
