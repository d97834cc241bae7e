"""Additions of numbers 0-99 as token ids of a byte-level model, split into training and held-out problems."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property

import lockstep
import numpy as np

# Ids above the 256 bytes, as `lockstep_server init-model` lays them out.
BOS = 256
EOS = 257

# Three digits and EOS.
ANSWER_TOKENS_MAX = 4

# One problem in this many is held out.
HELD_OUT_SHARE = 10


@dataclass(frozen=True)
class Problem:
    """left + right, both written with two digits and the answer with three: 07+35=042."""

    left: int
    right: int

    @cached_property
    def prompt(self) -> np.ndarray:
        """BOS and the bytes of "07+35="."""
        return np.array([BOS, *f"{self.left:02d}+{self.right:02d}=".encode()], np.int32)

    @cached_property
    def answer(self) -> np.ndarray:
        """The bytes of "042" and EOS."""
        return np.array([*f"{self.left + self.right:03d}".encode(), EOS], np.int32)

    @property
    def held_out(self) -> bool:
        """By a hash of the problem, so that the split depends on nothing else."""
        return (
            hashlib.sha256(f"{self.left}+{self.right}".encode()).digest()[0] % HELD_OUT_SHARE == 0
        )

    def reward(self, tokens: np.ndarray) -> float:
        """1 for exactly the answer, else 0."""
        return float(np.array_equal(tokens, self.answer))


def split_problems() -> tuple[list[Problem], list[Problem]]:
    """The training and the held-out problems, in numerical order."""
    problems = [Problem(left, right) for left in range(100) for right in range(100)]
    return [p for p in problems if not p.held_out], [p for p in problems if p.held_out]


class ProblemStream:
    """Problems without end: every epoch holds each once, in an order that follows from (seed, epoch) alone.

    Sorted by a hash instead of shuffled by a library's generator, whose stream may change with its version.
    """

    def __init__(self, problems: list[Problem], seed: int) -> None:
        self._problems = problems
        self._seed = seed
        self._epoch = 0
        self._rest: list[Problem] = []

    def take(self, count: int) -> list[Problem]:
        taken: list[Problem] = []
        while len(taken) < count:
            if not self._rest:
                self._rest = sorted(self._problems, key=self._rank)
                self._epoch += 1
            missing = count - len(taken)
            taken += self._rest[:missing]
            self._rest = self._rest[missing:]
        return taken

    def _rank(self, problem: Problem) -> int:
        return lockstep.derive_seed(self._seed, self._epoch, problem.left, problem.right)
