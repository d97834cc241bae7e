"""What is computed: the same token ids on every side, whichever environment it runs in.

Nothing but the standard library is imported here.
"""

from __future__ import annotations

import random

# SmolLM's special tokens come first; text begins after them.
FIRST_TEXT_TOKEN = 17
VOCABULARY_SIZE = 49152

LEARNING_RATE = 1e-6
BETAS = (0.9, 0.95)
EPSILON = 1e-8


def token_ids(count: int, seed: int) -> list[int]:
    """`count` ids of text tokens, the same for the same seed. Speed does not depend on what they say."""
    draw = random.Random(seed)
    return [draw.randrange(FIRST_TEXT_TOKEN, VOCABULARY_SIZE) for _ in range(count)]


def sequences_of_ids(sequences: int, tokens: int, seed: int) -> list[list[int]]:
    """Different rows of ids, each `tokens` long."""
    return [token_ids(tokens, seed * 1000 + index) for index in range(sequences)]


def advantages(samples: int) -> list[float]:
    """Half of the samples of a group are rewarded, half are not, as GRPO centres them."""
    return [1.0 if index % 2 == 0 else -1.0 for index in range(samples)]
