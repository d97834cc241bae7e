"""Goal: a real model against transformers, and against itself.

Method: SmolLM2-135M-Instruct as tools/get_smollm2 makes it (which downloads it once): the stored greedy continuations of
transformers in fp32, token for token; the server's own parity check over more than 2,000 sampled tokens in both profiles
and on one to four stages; perplexity of one profile beside the other. `tools/test --long` runs it.
"""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import lockstep
import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
BINARY = ROOT / "bazel-bin" / "server" / "lockstep_server"
GOLDEN = ROOT / "tests" / "golden" / "smollm2_greedy.json"

# Abraham Lincoln, 1863.
GETTYSBURG = """Four score and seven years ago our fathers brought forth, upon this continent, a new nation, conceived \
in liberty, and dedicated to the proposition that "all men are created equal."

Now we are engaged in a great civil war, testing whether that nation, or any nation so conceived, and so dedicated, can \
long endure. We are met on a great battle field of that war. We have come to dedicate a portion of it, as a final \
resting place for those who died here, that the nation might live. This we may, in all propriety do. But, in a larger \
sense, we can not dedicate, we can not consecrate, we can not hallow, this ground. The brave men, living and dead, who \
struggled here, have hallowed it, far above our poor power to add or detract. The world will little note, nor long \
remember what we say here; while it can never forget what they did here.

It is rather for us, the living, we here be dedicated to the great task remaining before us, that, from these honored \
dead we take increased devotion to that cause for which they here, gave the last full measure of devotion, that we here \
highly resolve these dead shall not have died in vain; that the nation, shall have a new birth of freedom, and that \
government of the people, by the people, for the people, shall not perish from the earth."""

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def model() -> Path:
    made = subprocess.run(
        [ROOT / "tools" / "get_smollm2"], check=True, stdout=subprocess.PIPE, text=True
    )
    return Path(made.stdout.strip())


@contextmanager
def serve(model: Path, **flags: str | int) -> Iterator[lockstep.Client]:
    with lockstep.LocalServer(BINARY, model, flags=flags) as server, server.client() as client:
        yield client


@pytest.mark.parametrize("stages", [1, 2])
def test_greedy_continuations_are_those_of_transformers(model: Path, stages: int) -> None:
    continuations = json.loads(GOLDEN.read_text())["continuations"]
    assert len(continuations) == 5
    with serve(model, stages=stages) as client:
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
def test_parity_of_2048_sampled_tokens(model: Path, profile: str, stages: int) -> None:
    with serve(model, profile=profile, stages=stages) as client:
        report = client.check_parity(num_prompts=16, num_samples=4, max_tokens=32, temperature=0.7)
    assert report.weights.numerics_id == f"{profile}-v1-l1"
    # Every path looks at every sampled token; one that ended early would have fewer.
    assert report.comparisons
    for comparison in report.comparisons:
        assert comparison.compared_tokens >= 2000, comparison
        assert comparison.mismatched_tokens == 0, comparison
    assert report.passed


@pytest.mark.parametrize(("profile", "stages"), [("fp32", 1), ("bf16", 1), ("bf16", 2)])
def test_memory_at_start_is_as_planned(model: Path, profile: str, stages: int) -> None:
    flags = {"profile": profile, "stages": stages, "kv_page_count": 4096}
    with lockstep.LocalServer(BINARY, model, flags=flags) as server, server.client() as client:
        planned = client.info().memory.at_start
        status = Path(f"/proc/{server.pid}/status").read_text()
    resident = {line.split(":")[0]: line.split()[1] for line in status.splitlines()}
    measured = int(resident["RssAnon"]) * 1024
    print(f"planned {planned / 2**20:.0f} MiB, resident {measured / 2**20:.0f} MiB")
    assert abs(measured / planned - 1) <= 0.1


def test_bf16_costs_half_a_percent_of_perplexity_at_most(model: Path) -> None:
    codec = lockstep.TextCodec.from_directory(model)
    tokens = codec.encode(GETTYSBURG)
    perplexities = []
    for profile in ("fp32", "bf16"):
        with serve(model, profile=profile) as client:
            (score,) = client.score([tokens])
        perplexities.append(float(np.exp(-np.mean(score.logprobs[1:], dtype=np.float64))))
    fp32, bf16 = perplexities
    print(f"perplexity over {len(tokens)} tokens: fp32 {fp32:.4f}, bf16 {bf16:.4f}")
    assert bf16 != fp32
    assert abs(bf16 / fp32 - 1) <= 0.005
