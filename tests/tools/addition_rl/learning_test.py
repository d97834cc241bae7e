"""Goal: what is trained on follows from rewards and seed alone, not from the order in which rollouts end.

Method: a server in this process that answers every sample right or wrong by its seed, and keeps the training requests.
"""

import hashlib
import threading
from collections.abc import Iterator

import lockstep
import numpy as np
import pytest
from addition_rl.learning import Schedule, accuracy, group_advantages, reinforce, warm_up
from addition_rl.problems import EOS, split_problems
from lockstep.wire import generation_pb2, training_pb2, types_pb2

from tests.client.python.fake_server import WEIGHTS, FakeServer, delta, header, serving

SCHEDULE = Schedule(
    seed=3, warmup_steps=2, warmup_batch=5, rl_steps=2, rl_prompts=4, rl_samples_per_prompt=3
)


def answer_of(request: generation_pb2.GenerateRequest, sample_index: int) -> list[int]:
    """The right answer, or one of three wrong ones, by a hash of seed and sample."""
    left, right = bytes(request.prompt_token_ids[1:6]).decode().split("+")
    error = hashlib.sha256(f"{request.seed}/{sample_index}".encode()).digest()[0] % 4
    return [*f"{int(left) + int(right) + error:03d}".encode(), EOS]


class Policy:
    """Answers Generate; with `reversed_ends`, the requests of a batch end in the reverse of their order."""

    def __init__(self, batch: int, *, reversed_ends: bool) -> None:
        self._reversed_ends = reversed_ends
        self._barrier = threading.Barrier(batch)
        self._condition = threading.Condition()
        self._waiting: list[bytes] = []

    def __call__(
        self, request: generation_pb2.GenerateRequest, context: object
    ) -> Iterator[generation_pb2.GenerateResponse]:
        key = request.SerializeToString(deterministic=True)
        yield header(request.seed)
        if self._reversed_ends:
            with self._condition:
                self._waiting.append(key)
            self._barrier.wait(timeout=60)
            with self._condition:
                assert self._condition.wait_for(lambda: max(self._waiting) == key, timeout=60)
        for index in range(request.num_samples):
            tokens = answer_of(request, index)
            logprobs = np.linspace(-1, -2, len(tokens), dtype=np.float32)
            yield delta(index, tokens, logprobs, types_pb2.FINISH_REASON_STOP, EOS)
        if self._reversed_ends:
            with self._condition:
                self._waiting.remove(key)
                self._condition.notify_all()


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with serving() as fake:
        fake.answers = {
            "TrainStep": lambda request: training_pb2.TrainStepResponse(
                metrics=training_pb2.TrainMetrics(compared_tokens=7), weights=WEIGHTS
            )
        }
        yield fake


def train_requests(server: FakeServer) -> list[training_pb2.TrainStepRequest]:
    return [r for r in server.requests if isinstance(r, training_pb2.TrainStepRequest)]


def reinforced(server: FakeServer, *, reversed_ends: bool) -> list[bytes]:
    server.generate = Policy(SCHEDULE.rl_prompts, reversed_ends=reversed_ends)
    server.requests.clear()
    training, _ = split_problems()
    with lockstep.Client(server.address, timeout=60.0) as client, client.run("r") as run:
        list(reinforce(client, run, training, SCHEDULE))
    return [r.SerializeToString(deterministic=True) for r in train_requests(server)]


def test_data_do_not_depend_on_which_rollout_ends_first(server: FakeServer) -> None:
    in_order = reinforced(server, reversed_ends=False)

    assert len(in_order) == SCHEDULE.rl_steps
    assert reinforced(server, reversed_ends=True) == in_order


def test_data_of_a_step(server: FakeServer) -> None:
    reinforced(server, reversed_ends=False)
    (first, second) = train_requests(server)

    assert (first.call.seq_id, second.call.seq_id) == (1, 2)
    assert first.loss.kind == training_pb2.LOSS_KIND_PPO
    assert len(first.data) == SCHEDULE.rl_prompts * SCHEDULE.rl_samples_per_prompt
    assert first.data[0].model_input != second.data[0].model_input
    rewarded = 0
    for datum in first.data:
        scored = [i for i, mask in enumerate(datum.mask) if mask == 1]
        assert [datum.target_tokens[i] for i in scored][-1] == EOS
        assert datum.sampled_under == WEIGHTS
        rewarded += max(datum.advantages) > 0
    assert 0 < rewarded < len(first.data)


def test_warm_up_ramps_the_rate_and_scores_answers_only(server: FakeServer) -> None:
    training, _ = split_problems()
    with lockstep.Client(server.address, timeout=60.0) as client, client.run("r") as run:
        steps = list(warm_up(run, training, SCHEDULE))
    requests = train_requests(server)

    assert [step.index for step in steps] == [1, 2]
    ramp = SCHEDULE.warmup_learning_rate / SCHEDULE.warmup_ramp_steps
    assert [r.adamw.learning_rate for r in requests] == pytest.approx([ramp, 2 * ramp], rel=1e-6)
    assert [len(r.data) for r in requests] == [5, 5]
    assert all(sum(datum.mask) == 4 for datum in requests[0].data)


def test_group_advantages() -> None:
    advantages = group_advantages(np.array([[1.0, 0.0, 0.0, 0.0], [1.0, 1.0, 1.0, 1.0]]))

    deviation = np.sqrt(3) / 4
    np.testing.assert_allclose(advantages[0], np.array([0.75, -0.25, -0.25, -0.25]) / deviation)
    # No difference, no gradient; and no 0/0.
    np.testing.assert_array_equal(advantages[1], 0)


def test_accuracy_is_the_share_of_exact_answers(server: FakeServer) -> None:
    server.generate = Policy(1, reversed_ends=False)
    _, held_out = split_problems()
    problems = held_out[:64]
    with lockstep.Client(server.address, timeout=60.0) as client:
        measured = accuracy(client, problems, seed=9)
    right = 0
    for request in server.requests:
        assert isinstance(request, generation_pb2.GenerateRequest)
        assert request.num_samples == 1
        assert not request.sampling_params.HasField("temperature")
        prompt = list(request.prompt_token_ids)
        (problem,) = [p for p in problems if p.prompt.tolist() == prompt]
        right += answer_of(request, 0) == problem.answer.tolist()
    assert measured == right / 64
    assert 0 < measured < 1
