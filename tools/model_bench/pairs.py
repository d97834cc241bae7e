"""Interleaved pairs and what they say: medians, and the band that our own speed moves in meanwhile.

A pair is ours, peer, ours again. The ratio takes ours as the geometric mean of the two, so that a
machine that slows down steadily favours neither side; ours over ours again is what the same program
differs by from itself, and a ratio within that band says nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

# The band between these percentiles is printed.
BAND_PERCENTILES = (5.0, 95.0)


@dataclass(frozen=True)
class Pair:
    """Rates (work a second), in the order they were measured in."""

    ours: float
    peer: float
    ours_again: float
    # The rate that the machine's limits allow, measured beside this pair; None where none is named.
    limit: float | None = None

    @property
    def ours_mean(self) -> float:
        return math.sqrt(self.ours * self.ours_again)

    @property
    def ratio(self) -> float:
        """Above 1 we are faster."""
        return self.ours_mean / self.peer

    @property
    def self_ratio(self) -> float:
        """Ours against ours: 1 but for noise."""
        return self.ours / self.ours_again

    @property
    def reached(self) -> float | None:
        """The fraction of the limit."""
        return None if self.limit is None else self.ours_mean / self.limit


@dataclass(frozen=True)
class Band:
    low: float
    high: float


@dataclass(frozen=True)
class Summary:
    """Medians over the pairs of a row."""

    pairs: int
    ours: float
    peer: float
    ratio: float
    ratio_band: Band
    self_band: Band  # the A/A band
    limit: float | None
    reached: float | None


def percentile(values: Sequence[float], percent: float) -> float:
    """By linear interpolation between the two nearest ranks. REQUIRES: at least one value."""
    ordered = sorted(values)
    position = (len(ordered) - 1) * percent / 100.0
    below = math.floor(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (position - below)


def band(values: Sequence[float]) -> Band:
    low, high = BAND_PERCENTILES
    return Band(percentile(values, low), percentile(values, high))


def summarize(pairs: Sequence[Pair]) -> Summary:
    """REQUIRES: at least one pair; all of them have a limit, or none has."""
    limits = [pair.limit for pair in pairs if pair.limit is not None]
    reached = [pair.reached for pair in pairs if pair.reached is not None]
    return Summary(
        pairs=len(pairs),
        ours=median(pair.ours_mean for pair in pairs),
        peer=median(pair.peer for pair in pairs),
        ratio=median(pair.ratio for pair in pairs),
        ratio_band=band([pair.ratio for pair in pairs]),
        self_band=band([pair.self_ratio for pair in pairs]),
        limit=median(limits) if limits else None,
        reached=median(reached) if reached else None,
    )
