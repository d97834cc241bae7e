"""That two sides run the same model: they pick the same tokens greedily."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

QUESTIONS = (
    "Name the planets of the solar system, from the sun outwards.",
    "Write one sentence about the sea.",
    "What is the capital of France?",
    "Count from one to twenty.",
)
GREEDY_TOKENS = 32  # of each answer

# Two programs round differently, and after the first near tie their texts are two texts. What is
# wrong with a model's weights shows in the first token or two.
SAME_SHARE_MIN = 0.25


@dataclass(frozen=True)
class Agreement:
    """Greedy answers to the same prompts, ours beside a peer's."""

    ours: str
    peer: str
    same_tokens: int  # of each answer those before the first that differs
    tokens: int  # of all answers

    @property
    def is_same_model(self) -> bool:
        return self.same_tokens >= SAME_SHARE_MIN * self.tokens

    def __str__(self) -> str:
        verdict = "the same model" if self.is_same_model else "NOT THE SAME MODEL"
        return (
            f"{self.ours} and {self.peer} pick the same {self.same_tokens} of"
            f" {self.tokens} greedy tokens: {verdict}"
        )


def same_tokens(ours: Sequence[int], peer: Sequence[int]) -> int:
    """How many tokens are alike before the first that differs."""
    count = 0
    for a, b in zip(ours, peer, strict=False):
        if a != b:
            break
        count += 1
    return count
