"""What every served model must do, of whatever size: the checks that tests of several models share."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import lockstep
from lockstep.arrays import TokenIds

BINARY = Path(__file__).resolve().parents[2] / "bazel-bin" / "server" / "lockstep_server"


@contextmanager
def serve(model: Path, **flags: str | int) -> Iterator[lockstep.Client]:
    """A client of a server process of one's own, which ends with the block."""
    with lockstep.LocalServer(BINARY, model, flags=flags) as server, server.client() as client:
        yield client


def check_greedy(client: lockstep.Client, continuations: list[dict[str, Any]]) -> None:
    """Greedy continuations as tests/golden stores them, token for token."""
    rollouts = client.generate_many(
        [continuation["prompt_tokens"] for continuation in continuations],
        sampling=lockstep.SamplingParams(temperature=0.0),
        max_tokens=max(len(continuation["tokens"]) for continuation in continuations),
        ignore_eos=True,
    )
    for continuation, rollout in zip(continuations, rollouts, strict=True):
        (sample,) = rollout.samples
        assert sample.tokens.tolist() == continuation["tokens"]


def check_parity(
    client: lockstep.Client,
    numerics_id: str,
    prompts: Sequence[TokenIds] = (),
    **options: Any,  # noqa: ANN401
) -> None:
    """The server's own check, in which every path must look at 2,000 tokens or more."""
    report = client.check_parity(prompts, **options)
    assert report.weights.numerics_id == numerics_id
    # Every path looks at every sampled token; one that ended early would have fewer.
    assert report.comparisons
    for comparison in report.comparisons:
        assert comparison.compared_tokens >= 2000, comparison
        assert comparison.mismatched_tokens == 0, comparison
    assert report.passed
