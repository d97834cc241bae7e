"""Goal: the GRPO example's exit status says whether log-probs differed, and its rewards and errors are right.

Method: the program itself against a fake server that answers some problems right; a tokenizer of bytes. The real model's
run is tests/integration/smollm2_grpo_test.py.
"""

import importlib.util
import itertools
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import grpc
import numpy as np
import pytest
from lockstep.wire import generation_pb2, lockstep_pb2, training_pb2, types_pb2
from tokenizers import Tokenizer

from tests.client.python.fake_server import FakeServer, delta, done, header, serving

EXAMPLE = Path(__file__).resolve().parents[4] / "client/python/examples/smollm2_grpo.py"
VOCAB_SIZE = 256


@pytest.fixture(scope="module")
def example() -> ModuleType:
    """The program as a module."""
    spec = importlib.util.spec_from_file_location("smollm2_grpo", EXAMPLE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Where dataclasses look their annotations up.
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def directory(tmp_path: Path, byte_tokenizer: Tokenizer) -> Path:
    """A byte-level tokenizer with a chat template."""
    byte_tokenizer.save(str(tmp_path / "tokenizer.json"))
    template = "{% for message in messages %}{{ message['content'] }}{% endfor %}"
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": template}))
    return tmp_path


@pytest.fixture
def server(directory: Path) -> Iterator[FakeServer]:
    """Greedily it is always right, otherwise in every second sample; each step has 12 tokens compared."""
    tokenizer = Tokenizer.from_file(str(directory / "tokenizer.json"))

    def generate(
        request: generation_pb2.GenerateRequest, context: grpc.ServicerContext
    ) -> Iterator[generation_pb2.GenerateResponse]:
        numbers = numbers_asked(tokenizer, request)
        yield header(request.seed)
        for index in range(request.num_samples):
            answer = max(numbers) if index % 2 == 0 else min(numbers)
            tokens = tokenizer.encode(f" {answer}.").ids
            logprobs = np.full(len(tokens), -0.5, np.float32)
            yield delta(index, tokens, logprobs, types_pb2.FINISH_REASON_STOP, tokens[-1])
        yield done()

    with serving() as fake:
        fake.generate = generate
        fake.answers["GetServerInfo"] = lambda request: lockstep_pb2.GetServerInfoResponse(
            model=lockstep_pb2.ModelInfo(vocab_size=VOCAB_SIZE)
        )
        fake.answers["TrainStep"] = answering_train_steps(compared=12, mismatched=0)
        yield fake


def numbers_asked(tokenizer: Tokenizer, request: generation_pb2.GenerateRequest) -> tuple[int, ...]:
    """The three numbers of the problem."""
    numbers = re.findall(r"\d+", tokenizer.decode(list(request.prompt_token_ids)))
    assert len(numbers) == 3
    return tuple(int(number) for number in numbers)


def answering_train_steps(
    *, compared: int, mismatched: int, skipped: bool = False
) -> Callable[[training_pb2.TrainStepRequest], training_pb2.TrainStepResponse]:
    return lambda request: training_pb2.TrainStepResponse(
        metrics=training_pb2.TrainMetrics(compared_tokens=compared, mismatched_tokens=mismatched),
        optim_metrics=training_pb2.OptimMetrics(skipped=skipped, non_finite_tensor="lm_head"),
    )


def run_example(
    server: FakeServer, directory: Path, *more: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [
            sys.executable,
            EXAMPLE,
            f"--address={server.address}",
            f"--model-directory={directory}",
            "--steps=2",
            "--prompts-per-step=3",
            "--samples=4",
            "--held-out=5",
            *more,
        ],
        check=False,
        capture_output=True,
        text=True,
    )


def test_rewards_advantages_and_files(server: FakeServer, directory: Path) -> None:
    numbers_path, plot_path = directory / "numbers.json", directory / "curve.png"
    finished = run_example(server, directory, f"--json={numbers_path}", f"--plot={plot_path}")
    assert finished.returncode == 0, finished.stderr
    assert "mismatched tokens: 0 of 24 compared" in finished.stdout

    numbers = json.loads(numbers_path.read_text())
    assert [step["step"] for step in numbers["steps"]] == [1, 2]
    assert [step["reward"] for step in numbers["steps"]] == [0.5, 0.5]
    # Not due after the first step; always after the last.
    assert numbers["steps"][0]["held_out"] is None
    assert numbers["held_out_after"]["right"] == numbers["held_out_after"]["problems"] == 5
    assert plot_path.read_bytes().startswith(b"\x89PNG")

    steps = [r for r in server.requests if isinstance(r, training_pb2.TrainStepRequest)]
    assert len(steps) == 2
    for step in steps:
        assert len(step.data) == 12
        # The sampled tokens are the last ones of a datum: right, wrong, right, wrong in each group.
        assert [datum.advantages[-1] for datum in step.data] == [1.0, -1.0] * 6


def test_what_is_held_out_does_not_depend_on_the_order(example: ModuleType) -> None:
    for problem in itertools.islice(example.problems("any", held_out=True), 50):
        for numbers in itertools.permutations(problem.numbers):
            assert example.Problem(numbers).is_held_out


def test_greedy_answers_are_to_held_out_problems_and_sampled_ones_to_others(
    server: FakeServer, directory: Path, example: ModuleType
) -> None:
    assert run_example(server, directory, "--held-out=50").returncode == 0
    tokenizer = Tokenizer.from_file(str(directory / "tokenizer.json"))
    seen: Counter[bool] = Counter()
    for request in server.requests:
        if isinstance(request, generation_pb2.GenerateRequest):
            greedy = request.sampling_params.temperature == 0
            assert example.Problem(numbers_asked(tokenizer, request)).is_held_out == greedy
            seen[greedy] += 1
    # Before and after; two steps of three problems.
    assert seen == {True: 100, False: 6}


@pytest.mark.parametrize(("compared", "mismatched"), [(12, 1), (0, 0)])
def test_a_mismatch_and_nothing_compared_are_failures(
    server: FakeServer, directory: Path, compared: int, mismatched: int
) -> None:
    server.answers["TrainStep"] = answering_train_steps(compared=compared, mismatched=mismatched)
    finished = run_example(server, directory)
    assert finished.returncode == 1, finished.stderr
    assert f"mismatched tokens: {2 * mismatched} of {2 * compared} compared" in finished.stdout


def test_errors_are_told_in_a_line(server: FakeServer, directory: Path) -> None:
    server.answers["TrainStep"] = answering_train_steps(compared=12, mismatched=0, skipped=True)
    cases = [
        (run_example(server, directory), "the gradient of lm_head is not finite"),
        (run_example(server, directory / "absent"), "tokenizer.json does not exist"),
        # The last of two flags counts. Port 1 is reserved, and nobody listens there.
        (run_example(server, directory, "--address=127.0.0.1:1"), "no server at 127.0.0.1:1"),
        (run_example(server, directory, "--samples=1"), "'1' is not a whole number from 2 on"),
        (run_example(server, directory, "--plot=/absent/x.png"), "in an existing folder"),
    ]
    for finished, message in cases:
        assert finished.returncode == 2
        assert message in finished.stderr
        assert "Traceback" not in finished.stderr
