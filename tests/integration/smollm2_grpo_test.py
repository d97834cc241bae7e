"""Goal: the GRPO example learns on a real model in profile bf16, and no token's log-prob differs.

Method: the program as a user starts it, for a few small steps against a server process. `tools/test --long` runs it.
"""

import json
import subprocess
import sys
from pathlib import Path

import lockstep
import pytest
from model_checks import BINARY

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "client" / "python" / "examples" / "smollm2_grpo.py"

STEPS = 3
PROMPTS = 2
SAMPLES = 4
# As in the example.
ANSWER_TOKENS_MAX = 4

pytestmark = pytest.mark.long


def test_a_few_steps_on_smollm2(smollm2_model: Path, tmp_path: Path) -> None:
    numbers_path, plot_path = tmp_path / "numbers.json", tmp_path / "curve.png"
    with (
        lockstep.LocalServer(BINARY, smollm2_model, flags={"profile": "bf16"}) as server,
        server.client() as client,
    ):
        before = client.info()
        finished = subprocess.run(
            [
                sys.executable,
                EXAMPLE,
                f"--address={server.address}",
                f"--model-directory={smollm2_model}",
                f"--steps={STEPS}",
                f"--prompts-per-step={PROMPTS}",
                f"--samples={SAMPLES}",
                "--held-out=16",
                f"--json={numbers_path}",
                f"--plot={plot_path}",
            ],
            check=False,
            capture_output=True,
            text=True,
        )
        after = client.info()
    assert finished.returncode == 0, finished.stdout + finished.stderr

    numbers = json.loads(numbers_path.read_text())
    steps = numbers["steps"]
    assert numbers["numerics_id"] == "bf16-v1-l1"
    assert [step["step"] for step in steps] == list(range(1, STEPS + 1))
    for step in steps:
        # Every sampled token is compared, and an answer has one at least.
        assert step["compared_tokens"] == step["sampled_tokens"]
        assert PROMPTS * SAMPLES <= step["compared_tokens"]
        assert step["compared_tokens"] <= PROMPTS * SAMPLES * ANSWER_TOKENS_MAX
        assert step["mismatched_tokens"] == 0
        assert step["weight_version"] == before.weights.weight_version + step["step"]
    # Some group had right answers and wrong ones, or nothing was learnt from.
    assert any(step["grad_norm"] > 0 for step in steps)

    assert after.weights.weight_version == before.weights.weight_version + STEPS
    assert after.weights_digest != before.weights_digest
    assert numbers["weights_digest_before"] == before.weights_digest
    assert numbers["weights_digest_after"] == after.weights_digest
    assert plot_path.read_bytes().startswith(b"\x89PNG")
