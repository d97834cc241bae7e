"""Goal: rollouts hold exactly what the server sent, in order, and a stream that is closed is cancelled."""

import threading
from collections.abc import Iterator

import grpc
import lockstep
import numpy as np
import pytest
from lockstep.wire import generation_pb2, types_pb2

from tests.client.python.fake_server import FakeServer, Refusal, delta, done, header

STOP = types_pb2.FINISH_REASON_STOP
LENGTH = types_pb2.FINISH_REASON_LENGTH
ABORTED = types_pb2.FINISH_REASON_ABORTED


def test_deltas_of_several_samples_are_put_together(
    server: FakeServer, client: lockstep.Client
) -> None:
    rng = np.random.default_rng(7)
    sent = [-rng.random(4, np.float32), -rng.random(2, np.float32)]

    def answer(*_: object) -> Iterator[generation_pb2.GenerateResponse]:
        yield header(seed=2**64 - 1)
        yield delta(1, [20], sent[1][:1])
        yield delta(0, [10, 11, 12], sent[0][:3])
        yield delta(1, [257], sent[1][1:], STOP, 257)
        yield delta(0, [13], sent[0][3:], LENGTH)
        yield done()

    server.generate = answer
    rollouts = client.generate([1, 2], num_samples=2)

    assert rollouts.seed_used == 2**64 - 1
    assert rollouts.weights.weight_version == 3
    assert rollouts.weights.state_id == bytes(range(32))
    np.testing.assert_array_equal(rollouts.prompt, [1, 2])
    first, second = rollouts.samples
    np.testing.assert_array_equal(first.tokens, [10, 11, 12, 13])
    assert first.tokens.dtype == np.int32
    np.testing.assert_array_equal(second.tokens, [20, 257])
    for sample, logprobs in zip(rollouts.samples, sent, strict=True):
        np.testing.assert_array_equal(sample.logprobs.view(np.uint32), logprobs.view(np.uint32))
        np.testing.assert_array_equal(sample.raw_logprobs, -logprobs)
    assert (first.finish_reason, first.stop_token_id) == (lockstep.FinishReason.LENGTH, None)
    assert (second.finish_reason, second.stop_token_id) == (lockstep.FinishReason.STOP, 257)


def test_request_carries_every_argument(server: FakeServer, client: lockstep.Client) -> None:
    server.generate = lambda request, context: iter(
        [header(5), delta(0, [4], np.float32([-1]), LENGTH)]
    )
    client.generate(
        np.array([3, 1], np.int64),
        sampling=lockstep.SamplingParams(temperature=0.5, top_p=0.9, top_k=7, min_p=0.25),
        max_tokens=1,
        seed=0,
        stop_token_ids=[9, 8],
        ignore_eos=True,
    )

    (request,) = server.requests
    assert list(request.prompt_token_ids) == [3, 1]
    assert request.num_samples == 1
    assert request.max_tokens == 1
    assert request.HasField("seed")
    assert request.seed == 0
    assert list(request.stop_token_ids) == [9, 8]
    assert request.ignore_eos
    assert request.sampling_params.temperature == 0.5
    assert request.sampling_params.top_p == np.float32(0.9)
    assert request.sampling_params.top_k == 7
    assert request.sampling_params.min_p == 0.25


def test_what_is_left_out_stays_unset(server: FakeServer, client: lockstep.Client) -> None:
    server.generate = lambda request, context: iter(
        [header(5), delta(0, [4], np.float32([-1]), LENGTH)]
    )
    client.generate([3])

    (request,) = server.requests
    assert not request.HasField("seed")
    assert not request.HasField("max_tokens")
    assert not request.sampling_params.HasField("temperature")


def test_closing_a_stream_cancels_the_call(server: FakeServer, client: lockstep.Client) -> None:
    ended = threading.Event()

    def endless(
        request: generation_pb2.GenerateRequest, context: grpc.ServicerContext
    ) -> Iterator[generation_pb2.GenerateResponse]:
        context.add_callback(ended.set)
        yield header(1)
        yield delta(0, [10], np.float32([-1]))
        ended.wait()

    server.generate = endless
    stream = client.stream([1])
    first = next(stream)

    assert first.tokens.tolist() == [10]
    assert first.finish_reason is None
    assert stream.seed_used == 1
    stream.close()
    assert ended.wait(timeout=60)
    assert list(stream) == []


def test_leaving_the_with_block_cancels_the_call(
    server: FakeServer, client: lockstep.Client
) -> None:
    began = threading.Event()
    ended = threading.Event()

    def endless(
        request: generation_pb2.GenerateRequest, context: grpc.ServicerContext
    ) -> Iterator[generation_pb2.GenerateResponse]:
        context.add_callback(ended.set)
        began.set()
        yield header(1)
        ended.wait()

    server.generate = endless
    with client.stream([1]) as stream:
        # A call that is cancelled before the server looks at it leaves no trace there.
        assert began.wait(timeout=60)
    assert ended.wait(timeout=60)
    assert list(stream) == []


def test_a_stream_that_breaks_off_raises(server: FakeServer, client: lockstep.Client) -> None:
    server.generate = lambda request, context: iter(
        [header(1), delta(0, [10], np.float32([-1]), ABORTED)]
    )
    with pytest.raises(lockstep.LockstepError, match="ended before sample 1 did"):
        client.generate([1], num_samples=2)


def test_generate_many_keeps_the_order_of_the_prompts(
    server: FakeServer, client: lockstep.Client
) -> None:
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
    results = client.generate_many([[i] for i in range(count)], seed=11, concurrency=count)

    assert [int(r.samples[0].tokens[0]) for r in results] == [100 + i for i in range(count)]
    assert [r.seed_used for r in results] == [lockstep.derive_seed(11, i) for i in range(count)]


def test_generate_many_opens_no_more_requests_than_allowed(
    server: FakeServer, client: lockstep.Client
) -> None:
    mutex = threading.Lock()
    open_now, open_most = 0, 0

    def answer(
        request: generation_pb2.GenerateRequest, context: grpc.ServicerContext
    ) -> Iterator[generation_pb2.GenerateResponse]:
        nonlocal open_now, open_most
        with mutex:
            open_now += 1
            open_most = max(open_most, open_now)
        yield header(1)
        # Counted down before the client can see the end and begin the next one.
        with mutex:
            open_now -= 1
        yield delta(0, [1], np.float32([-1]), LENGTH)

    server.generate = answer
    assert len(client.generate_many([[1]] * 24, concurrency=3)) == 24
    assert 1 <= open_most <= 3


def test_generate_many_raises_the_first_failure_and_begins_no_more(
    server: FakeServer, client: lockstep.Client
) -> None:
    def answer(
        request: generation_pb2.GenerateRequest, context: grpc.ServicerContext
    ) -> Iterator[generation_pb2.GenerateResponse]:
        raise Refusal(grpc.StatusCode.RESOURCE_EXHAUSTED, "queue_depth_max is 1024")
        yield

    server.generate = answer
    with pytest.raises(lockstep.ResourceExhaustedError, match="queue_depth_max is 1024"):
        client.generate_many([[1]] * 100, concurrency=1)
    assert len(server.requests) == 1


def test_no_prompts_are_no_rollouts(client: lockstep.Client) -> None:
    assert client.generate_many([]) == []


def test_derived_seeds_differ_and_do_not_change() -> None:
    seeds = {lockstep.derive_seed(seed, index) for seed in range(50) for index in range(50)}
    assert len(seeds) == 2500
    assert all(0 <= seed < 2**64 for seed in seeds)
    # A changed derivation would change every digest that the quickstart has printed.
    assert lockstep.derive_seed(0, 0) == 6113538345208582997
