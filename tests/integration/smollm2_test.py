"""Goal: a real model against transformers, and against itself.

Method: SmolLM2-135M-Instruct as tools/get_smollm2 makes it (which downloads it once), on one and on two stages: the
stored greedy continuations of transformers in fp32, token for token, and the server's own parity check over more than
2,000 sampled tokens. `tools/test --long` runs it.
"""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import lockstep
import pytest

ROOT = Path(__file__).resolve().parents[2]
BINARY = ROOT / "bazel-bin" / "server" / "lockstep_server"
GOLDEN = ROOT / "tests" / "golden" / "smollm2_greedy.json"

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def model() -> Path:
    made = subprocess.run(
        [ROOT / "tools" / "get_smollm2"], check=True, stdout=subprocess.PIPE, text=True
    )
    return Path(made.stdout.strip())


@pytest.fixture(scope="module", params=[1, 2], ids=["1_stage", "2_stages"])
def client(request: pytest.FixtureRequest, model: Path) -> Iterator[lockstep.Client]:
    flags = {"stages": request.param}
    with lockstep.LocalServer(BINARY, model, flags=flags) as server, server.client() as connected:
        yield connected


def test_greedy_continuations_are_those_of_transformers(client: lockstep.Client) -> None:
    continuations = json.loads(GOLDEN.read_text())["continuations"]
    assert len(continuations) == 5
    rollouts = client.generate_many(
        [continuation["prompt_tokens"] for continuation in continuations],
        sampling=lockstep.SamplingParams(temperature=0.0),
        max_tokens=64,
        ignore_eos=True,
    )
    for continuation, rollout in zip(continuations, rollouts, strict=True):
        (sample,) = rollout.samples
        assert sample.tokens.tolist() == continuation["tokens"]


def test_parity_of_2048_sampled_tokens(client: lockstep.Client) -> None:
    report = client.check_parity(num_prompts=16, num_samples=4, max_tokens=32, temperature=0.7)
    # Every path looks at every sampled token; one that ended early would have fewer.
    assert report.comparisons
    for comparison in report.comparisons:
        assert comparison.compared_tokens >= 2000, comparison
        assert comparison.mismatched_tokens == 0, comparison
    assert report.passed
