"""Goal: a run never applies a step twice and never leaves a gap: one number per answered call."""

import grpc
import lockstep
import pytest
from google.protobuf.message import Message
from lockstep.run import RETRY_DELAYS_S, Run
from lockstep.wire import training_pb2

from tests.client.python.fake_server import WEIGHTS, FakeServer, Refusal

DATA = [lockstep.Datum.from_text_pair([1, 2], [3])]
ADAMW = lockstep.AdamW(learning_rate=0.5)


def train_answer(request: Message) -> Message:
    return training_pb2.TrainStepResponse(weights=WEIGHTS)


def test_calls_of_all_kinds_share_one_count(server: FakeServer, client: lockstep.Client) -> None:
    server.answers = {
        "ForwardBackward": lambda request: training_pb2.ForwardBackwardResponse(weights=WEIGHTS),
        "OptimStep": lambda request: training_pb2.OptimStepResponse(weights=WEIGHTS),
        "TrainStep": train_answer,
    }
    with client.run("experiment") as run:
        run.forward_backward(DATA, loss="cross_entropy")
        run.forward_backward(DATA, loss="cross_entropy")
        run.optim_step(adamw=ADAMW)
        run.train_step(DATA, loss="cross_entropy", adamw=ADAMW)

    assert [request.call.seq_id for request in server.requests] == [1, 2, 3, 4]
    assert {request.call.run_id for request in server.requests} == {"experiment"}
    assert run.next_seq_id == 5


def test_an_unavailable_server_is_asked_again_under_the_same_number(
    server: FakeServer, client: lockstep.Client
) -> None:
    def answer(request: Message) -> Message:
        if len(server.requests) <= 3:
            raise Refusal(grpc.StatusCode.UNAVAILABLE, "the server is stopping")
        return train_answer(request)

    server.answers = {"TrainStep": answer}
    waits: list[float] = []
    run = Run(client, "r", next_seq_id=7, sleep=waits.append)
    run.train_step(DATA, loss="ppo", adamw=ADAMW)

    assert [request.call.seq_id for request in server.requests] == [7, 7, 7, 7]
    assert len({request.SerializeToString(deterministic=True) for request in server.requests}) == 1
    assert waits == list(RETRY_DELAYS_S[:3])
    assert run.next_seq_id == 8


def test_a_server_that_stays_away_is_given_up(server: FakeServer, client: lockstep.Client) -> None:
    def answer(request: Message) -> Message:
        raise Refusal(grpc.StatusCode.UNAVAILABLE, "stage 1 is dead")

    server.answers = {"OptimStep": answer}
    waits: list[float] = []
    run = Run(client, "r", sleep=waits.append)
    with pytest.raises(lockstep.UnavailableError, match="stage 1 is dead"):
        run.optim_step(adamw=ADAMW)

    assert waits == list(RETRY_DELAYS_S)
    assert len(server.requests) == len(RETRY_DELAYS_S) + 1
    assert run.next_seq_id == 1


def test_a_refused_call_uses_up_no_number(server: FakeServer, client: lockstep.Client) -> None:
    def refuse(request: Message) -> Message:
        raise Refusal(grpc.StatusCode.INVALID_ARGUMENT, "data[0].advantages[1] is NaN")

    server.answers = {"TrainStep": refuse}
    run = client.run("r")
    with pytest.raises(lockstep.InvalidArgumentError, match="is NaN"):
        run.train_step(DATA, loss="ppo", adamw=ADAMW)
    server.answers = {"TrainStep": train_answer}
    run.train_step(DATA, loss="ppo", adamw=ADAMW)

    assert [request.call.seq_id for request in server.requests] == [1, 1]
    assert run.next_seq_id == 2


def test_runs_without_a_name_are_told_apart(client: lockstep.Client) -> None:
    assert client.run().run_id != client.run().run_id
