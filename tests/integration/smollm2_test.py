"""Goal: a real model against transformers, and against itself.

Method: SmolLM2-135M-Instruct as tools/get_smollm2 makes it (which downloads it once): the stored greedy continuations of
transformers in fp32, token for token; the server's own parity check over more than 2,000 sampled tokens in both profiles
and on one to four stages; perplexity of one profile beside the other. `tools/test --long` runs it.
"""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import lockstep
import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
BINARY = ROOT / "bazel-bin" / "server" / "lockstep_server"
GOLDEN = ROOT / "tests" / "golden" / "smollm2_greedy.json"

# A text of some length that every Debian has.
TEXT = Path("/usr/share/common-licenses/GPL-3")

pytestmark = pytest.mark.long


@contextmanager
def serve(model: Path, **flags: str | int) -> Iterator[lockstep.Client]:
    with lockstep.LocalServer(BINARY, model, flags=flags) as server, server.client() as client:
        yield client


@pytest.mark.parametrize("stages", [1, 2])
def test_greedy_continuations_are_those_of_transformers(smollm2_model: Path, stages: int) -> None:
    continuations = json.loads(GOLDEN.read_text())["continuations"]
    assert len(continuations) == 5
    with serve(smollm2_model, stages=stages) as client:
        rollouts = client.generate_many(
            [continuation["prompt_tokens"] for continuation in continuations],
            sampling=lockstep.SamplingParams(temperature=0.0),
            max_tokens=64,
            ignore_eos=True,
        )
    for continuation, rollout in zip(continuations, rollouts, strict=True):
        (sample,) = rollout.samples
        assert sample.tokens.tolist() == continuation["tokens"]


@pytest.mark.parametrize(
    ("profile", "stages"), [("fp32", 1), ("fp32", 2), ("bf16", 1), ("bf16", 2), ("bf16", 4)]
)
def test_parity_of_2048_sampled_tokens(smollm2_model: Path, profile: str, stages: int) -> None:
    with serve(smollm2_model, profile=profile, stages=stages) as client:
        report = client.check_parity(num_prompts=16, num_samples=4, max_tokens=32, temperature=0.7)
    assert report.weights.numerics_id == f"{profile}-v1-l1"
    # Every path looks at every sampled token; one that ended early would have fewer.
    assert report.comparisons
    for comparison in report.comparisons:
        assert comparison.compared_tokens >= 2000, comparison
        assert comparison.mismatched_tokens == 0, comparison
    assert report.passed


@pytest.mark.parametrize(("profile", "stages"), [("fp32", 1), ("bf16", 1), ("bf16", 2)])
def test_memory_at_start_is_as_planned(smollm2_model: Path, profile: str, stages: int) -> None:
    flags = {"profile": profile, "stages": stages, "kv_page_count": 4096}
    with (
        lockstep.LocalServer(BINARY, smollm2_model, flags=flags) as server,
        server.client() as client,
    ):
        planned = client.info().memory.at_start
        status = Path(f"/proc/{server.pid}/status").read_text()
    resident = re.search(r"^RssAnon:\s+(\d+) kB$", status, re.MULTILINE)
    assert resident is not None
    measured = int(resident[1]) * 1024
    print(f"planned {planned / 2**20:.0f} MiB, resident {measured / 2**20:.0f} MiB")
    assert abs(measured / planned - 1) <= 0.1


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
