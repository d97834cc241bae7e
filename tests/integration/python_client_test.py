"""Goal: the Python client, the quickstart and the README against the real server.

Method: a server process on a free port of the loopback address, over the tiny byte-level model, ended by the test that
started it.
"""

import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import lockstep
import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
PROMPT = [256, 49, 43, 50, 61]


@pytest.fixture
def client(server: lockstep.LocalServer) -> Iterator[lockstep.Client]:
    with server.client(timeout=120) as connected:
        yield connected


def bits(values: np.ndarray) -> list[int]:
    return np.asarray(values, np.float32).view(np.uint32).tolist()


def on_policy_data(client: lockstep.Client, temperature: float) -> list[lockstep.Datum]:
    rollouts = client.generate(
        PROMPT,
        num_samples=6,
        max_tokens=9,
        seed=3,
        sampling=lockstep.SamplingParams(temperature=temperature),
        ignore_eos=True,
    )
    advantages = np.linspace(-1, 1, len(rollouts.samples))
    return [
        lockstep.Datum.from_rollout(PROMPT, sample, advantage)
        for sample, advantage in zip(rollouts.samples, advantages, strict=True)
    ]


@pytest.mark.parametrize("temperature", [0.5, 1.0, 1.5])
def test_training_finds_the_bits_of_sampling(client: lockstep.Client, temperature: float) -> None:
    with client.run() as run:
        for _ in range(3):
            data = on_policy_data(client, temperature)
            step = run.train_step(data, loss="ppo", adamw=lockstep.AdamW(learning_rate=1e-3))
            assert step.metrics.compared_tokens == 6 * 9
            assert step.metrics.mismatched_tokens == 0
            assert step.metrics.ppo_kl == 0
            for datum, logprobs in zip(data, step.logprobs, strict=True):
                assert datum.mask is not None and datum.logprobs is not None
                scored = datum.mask == 1
                assert bits(logprobs[scored]) == bits(datum.logprobs[scored])


def test_a_planted_difference_of_one_bit_is_counted(client: lockstep.Client) -> None:
    data = on_policy_data(client, 1.0)
    logprobs = data[2].logprobs
    assert logprobs is not None
    logprobs[-1] = np.nextafter(logprobs[-1], np.float32(-np.inf))
    with client.run() as run:
        step = run.train_step(data, loss="ppo", adamw=lockstep.AdamW(learning_rate=1e-3))
    assert step.metrics.mismatched_tokens == 1
    mismatch = step.metrics.first_mismatch
    assert mismatch is not None
    assert (mismatch.datum_index, mismatch.position) == (2, len(logprobs) - 1)


def test_bad_input_names_the_field_and_changes_nothing(client: lockstep.Client) -> None:
    before = client.info()
    with pytest.raises(lockstep.InvalidArgumentError, match="temperature"):
        client.generate(PROMPT, sampling=lockstep.SamplingParams(temperature=-1.0))
    with pytest.raises(lockstep.InvalidArgumentError, match=r"prompt_token_ids\[1\].*259"):
        client.generate([1, 259])
    with client.run() as run, pytest.raises(lockstep.InvalidArgumentError, match="advantages"):
        data = on_policy_data(client, 1.0)
        advantages = data[1].advantages
        assert advantages is not None
        advantages[-1] = np.nan
        run.train_step(data, loss="ppo", adamw=lockstep.AdamW(learning_rate=1e-3))
    after = client.info()
    assert after.weights_digest == before.weights_digest
    assert after.weights == before.weights


def test_concurrent_rollouts_are_those_of_a_quiet_server_while_steps_run(
    client: lockstep.Client,
) -> None:
    prompts = [[256, *range(i % 60 + 1)] for i in range(32)]

    def rollouts() -> list[lockstep.Rollouts]:
        return client.generate_many(prompts, max_tokens=24, seed=5, concurrency=32, ignore_eos=True)

    quiet = rollouts()
    root = client.info().weights
    stop = threading.Event()

    def train() -> None:
        with client.run() as run:
            while not stop.is_set():
                data = on_policy_data(client, 1.0)
                # A rate of 0 gives a new state with the same weights: rollouts stay comparable.
                run.train_step(data, loss="ppo", adamw=lockstep.AdamW(learning_rate=0.0))

    with ThreadPoolExecutor(max_workers=1) as pool:
        training = pool.submit(train)
        try:
            busy = [rollouts() for _ in range(3)]
        finally:
            stop.set()
        training.result()
    assert client.info().weights.weight_version > root.weight_version
    for again in busy:
        for expected, actual in zip(quiet, again, strict=True):
            assert actual.samples[0].tokens.tolist() == expected.samples[0].tokens.tolist()
            assert bits(actual.samples[0].logprobs) == bits(expected.samples[0].logprobs)


def quickstart(work_dir: Path, *arguments: str) -> dict[str, str]:
    """Runs a short quickstart; its closing lines by their names."""
    output = subprocess.run(
        [sys.executable, ROOT / "tools" / "quickstart.py", "--work-dir", work_dir, *arguments]
        + ["--warmup-steps", "4", "--rl-steps", "2"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    assert (work_dir / "quickstart.png").is_file()
    return dict(re.findall(r"^(mismatched tokens|weights digest): (.+)$", output, re.MULTILINE))


def test_the_quickstart_prints_one_digest_however_the_work_is_split(tmp_path: Path) -> None:
    whole = quickstart(tmp_path / "whole")
    split = quickstart(
        tmp_path / "split", "--stages", "2", "--micro-batch-size", "5", "--threads", "3"
    )
    assert re.fullmatch(r"0 of [1-9]\d* compared", whole["mismatched tokens"])
    assert whole == split
    # The check can fail: another seed is another digest.
    other = quickstart(tmp_path / "other", "--seed", "1")
    assert other["weights digest"] != whole["weights digest"]


def test_the_readme_s_program_runs_and_learns(
    server: lockstep.LocalServer, tiny_model: Path
) -> None:
    program = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert program is not None
    source = program[1].replace("127.0.0.1:50551", server.address)
    output = subprocess.run(
        [sys.executable, "-c", source.replace("/tmp/tiny", str(tiny_model))],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    lines = output.splitlines()
    assert len(lines) == 20
    matches = [re.fullmatch(r"reward ([01]\.\d\d), 0 of 64 differ", line) for line in lines]
    rewards = [float(match[1]) for match in matches if match]
    assert len(rewards) == 20
    assert rewards[0] < 0.2 and rewards[-1] > 0.9
