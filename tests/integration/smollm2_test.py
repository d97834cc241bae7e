"""Goal: a real model against transformers, and against itself.

Method: SmolLM2-135M-Instruct as tools/get_smollm2 makes it (which downloads it once): the stored greedy continuations of
transformers in fp32, token for token; the server's own parity check over more than 2,000 sampled tokens in both profiles
and on one to four stages; two training steps on every instruction set; perplexity of one profile beside the other.
`tools/test --long` runs it.
"""

import json
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

import lockstep
import numpy as np
import pytest
from model_checks import BINARY, check_greedy, check_parity, serve

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden" / "smollm2_greedy.json"

# A text of some length that every Debian has.
TEXT = Path("/usr/share/common-licenses/GPL-3")

pytestmark = pytest.mark.long


@pytest.mark.parametrize("stages", [1, 2])
def test_greedy_continuations_are_those_of_transformers(smollm2_model: Path, stages: int) -> None:
    continuations = json.loads(GOLDEN.read_text())["continuations"]
    assert len(continuations) == 5
    with serve(smollm2_model, stages=stages) as client:
        check_greedy(client, continuations)


@pytest.mark.parametrize(
    ("profile", "stages"), [("fp32", 1), ("fp32", 2), ("bf16", 1), ("bf16", 2), ("bf16", 4)]
)
def test_parity_of_2048_sampled_tokens(smollm2_model: Path, profile: str, stages: int) -> None:
    with serve(smollm2_model, profile=profile, stages=stages) as client:
        check_parity(
            client,
            f"{profile}-v1-l1",
            num_prompts=16,
            num_samples=4,
            max_tokens=32,
            temperature=0.7,
        )


# Flags of /proc/cpuinfo that a set needs.
CPU_FLAGS = {
    "avx2": {"avx2", "fma"},
    "avx512": {"avx512f", "fma"},
    "avx512_bf16": {"avx512_bf16", "avx512bw", "avx512f", "fma"},
}


@pytest.fixture(scope="module")
def state_after_two_steps(smollm2_model: Path) -> Callable[[str, int], tuple[str, ...]]:
    """Digests of weights and moments and the state's name after two on-policy steps in bf16."""

    @cache
    def run(instruction_set: str, stages: int) -> tuple[str, ...]:
        codec = lockstep.TextCodec.from_directory(smollm2_model)
        prompt = codec.encode_chat([{"role": "user", "content": "Name three colours."}])
        flags = {"profile": "bf16", "instruction_set": instruction_set, "stages": stages}
        with serve(smollm2_model, **flags) as client:
            assert client.info().instruction_set == instruction_set
            training = client.run("two-steps")
            for seed in (1, 2):
                samples = client.generate(
                    prompt, num_samples=4, max_tokens=16, seed=seed, ignore_eos=True
                ).samples
                step = training.train_step(
                    [
                        lockstep.Datum.from_rollout(prompt, sample, advantage)
                        for sample, advantage in zip(samples, (1.0, -1.0, 0.5, -0.5), strict=True)
                    ],
                    loss="ppo",
                    adamw=lockstep.AdamW(learning_rate=1e-4),
                )
                assert step.metrics.compared_tokens == 64
                assert step.metrics.mismatched_tokens == 0
            info = client.info()
        return info.weights_digest, info.moments_digest, info.weights.state_id

    return run


@pytest.mark.parametrize("stages", [1, 4])
@pytest.mark.parametrize("instruction_set", CPU_FLAGS)
def test_scalar_and_vectors_train_to_the_same_digest(
    state_after_two_steps: Callable[[str, int], tuple[str, ...]], instruction_set: str, stages: int
) -> None:
    flags = re.search(r"^flags\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    assert flags is not None
    if not CPU_FLAGS[instruction_set] <= set(flags[1].split()):
        pytest.skip(f"cpu lacks {instruction_set}")
    assert state_after_two_steps(instruction_set, stages) == state_after_two_steps("scalar", 1)


def resident_bytes(pid: int, field: str) -> int:
    found = re.search(
        rf"^{field}:\s+(\d+) kB$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE
    )
    assert found is not None
    return int(found[1]) * 1024


@pytest.mark.parametrize(("profile", "stages"), [("fp32", 1), ("bf16", 1), ("bf16", 2)])
def test_memory_is_as_planned(smollm2_model: Path, profile: str, stages: int) -> None:
    # So few pages that one short request uses them all.
    flags = {"profile": profile, "stages": stages, "kv_page_count": 8}
    with (
        lockstep.LocalServer(BINARY, smollm2_model, flags=flags) as server,
        server.client() as client,
    ):
        plan = client.info().memory
        filled = plan.masters + plan.weights + plan.rope_tables + plan.head
        at_start = resident_bytes(server.pid, "RssAnon")
        peak = resident_bytes(server.pid, "VmHWM")
        print(f"filled at start {filled / 2**20:.0f} MiB, resident {at_start / 2**20:.0f} MiB")
        assert abs(at_start / filled - 1) <= 0.1
        # Loading holds no second copy, of the file or of a part of it.
        assert peak <= 1.15 * filled

        tokens = np.arange(1, 101)
        sample = client.generate(tokens, max_tokens=16).samples[0]
        with client.run() as run:
            data = [lockstep.Datum.from_rollout(tokens, sample, 1.0)]
            run.train_step(data, loss="ppo", adamw=lockstep.AdamW(learning_rate=1e-5))
        # A stage does things in order: behind this it has let go of the weights before the step.
        client.generate([1], max_tokens=1)
        used = resident_bytes(server.pid, "RssAnon")
    print(f"planned {plan.at_start / 2**20:.0f} MiB, resident {used / 2**20:.0f} MiB once used")
    assert abs(used / plan.at_start - 1) <= 0.1


def test_bf16_costs_half_a_percent_of_perplexity_at_most(smollm2_model: Path) -> None:
    codec = lockstep.TextCodec.from_directory(smollm2_model)
    tokens = codec.encode(TEXT.read_text())[:6144]
    chunks = [tokens[begin : begin + 1024] for begin in range(0, len(tokens), 1024)]
    logprobs = []
    for profile in ("fp32", "bf16"):
        with serve(smollm2_model, profile=profile) as client:
            scores = client.score(chunks).sequences
        logprobs.append(np.concatenate([score.logprobs[1:] for score in scores]).astype(float))
    fp32, bf16 = logprobs
    ratio = np.exp(np.mean(fp32 - bf16))
    error = np.std(fp32 - bf16) / np.sqrt(len(fp32))  # of its logarithm
    print(
        f"perplexity {np.exp(-fp32.mean()):.3f} in fp32, times {ratio:.5f} in bf16, +- {error:.5f}"
    )
    assert np.any(fp32 != bf16)
    assert error < 0.001, "the text is too short to say"
    assert abs(ratio - 1) <= 0.005
