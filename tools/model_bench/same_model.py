"""That two sides run the same model: they pick the same tokens greedily."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

# Two programs round differently, and after the first near tie their texts are two texts. So many
# tokens must be the same; what is wrong with a model's weights shows in the first few.
SAME_TOKENS_MIN = 8
GREEDY_TOKENS = 32


@dataclass(frozen=True)
class Agreement:
    """Greedy continuations of one prompt, ours beside a peer's."""

    ours: str
    peer: str
    same_tokens: int  # before the first that differs
    tokens: int

    @property
    def is_same_model(self) -> bool:
        return self.same_tokens >= min(SAME_TOKENS_MIN, self.tokens)

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
