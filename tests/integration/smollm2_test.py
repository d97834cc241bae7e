"""Goal: a real model against transformers, and against itself.

Method: SmolLM2-135M-Instruct as tools/get_smollm2 makes it (which downloads it once): the stored greedy continuations of
transformers in fp32, token for token; the server's own parity check over more than 2,000 sampled tokens in both profiles
and on one to four stages; perplexity of one profile beside the other. `tools/test --long` runs it.
"""

import json
import re
import subprocess
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


@pytest.fixture(scope="module")
def model() -> Path:
    made = subprocess.run(
        [ROOT / "tools" / "get_smollm2"], check=True, stdout=subprocess.PIPE, text=True
    )
    return Path(made.stdout.strip())


@pytest.mark.parametrize("stages", [1, 2])
def test_greedy_continuations_are_those_of_transformers(model: Path, stages: int) -> None:
    continuations = json.loads(GOLDEN.read_text())["continuations"]
    assert len(continuations) == 5
    with serve(model, stages=stages) as client:
        check_greedy(client, continuations)


@pytest.mark.parametrize(
    ("profile", "stages"), [("fp32", 1), ("fp32", 2), ("bf16", 1), ("bf16", 2), ("bf16", 4)]
)
def test_parity_of_2048_sampled_tokens(model: Path, profile: str, stages: int) -> None:
    with serve(model, profile=profile, stages=stages) as client:
        check_parity(
            client,
            f"{profile}-v1-l1",
            num_prompts=16,
            num_samples=4,
            max_tokens=32,
            temperature=0.7,
        )


@pytest.mark.parametrize(("profile", "stages"), [("fp32", 1), ("bf16", 1), ("bf16", 2)])
def test_memory_at_start_is_as_planned(model: Path, profile: str, stages: int) -> None:
    flags = {"profile": profile, "stages": stages, "kv_page_count": 4096}
    with lockstep.LocalServer(BINARY, model, flags=flags) as server, server.client() as client:
        planned = client.info().memory.at_start
        status = Path(f"/proc/{server.pid}/status").read_text()
    resident = re.search(r"^RssAnon:\s+(\d+) kB$", status, re.MULTILINE)
    assert resident is not None
    measured = int(resident[1]) * 1024
    print(f"planned {planned / 2**20:.0f} MiB, resident {measured / 2**20:.0f} MiB")
    assert abs(measured / planned - 1) <= 0.1


def test_bf16_costs_half_a_percent_of_perplexity_at_most(model: Path) -> None:
    codec = lockstep.TextCodec.from_directory(model)
    tokens = codec.encode(TEXT.read_text())[:6144]
    chunks = [tokens[begin : begin + 1024] for begin in range(0, len(tokens), 1024)]
    logprobs = []
    for profile in ("fp32", "bf16"):
        with serve(model, profile=profile) as client:
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
