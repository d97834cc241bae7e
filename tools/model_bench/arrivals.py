"""From the moments at which tokens arrived to the speed of decoding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Arrival:
    """One token of one sample, seen by the client at `seconds` of its clock."""

    sample_index: int
    seconds: float


@dataclass(frozen=True)
class SteadySpan:
    """Tokens of all samples, and the seconds that they took, while every sample was decoding."""

    tokens: int
    seconds: float


def steady_span(arrivals: Sequence[Arrival], samples: int) -> SteadySpan:
    """The span in which all `samples` were running: no prefill before it, no emptying batch after it.

    Every sample gets one token a step, so the last sample to start tells the steps: from its first
    token to its last one that came before any sample had ended. ValueError when there is no such
    span.
    """
    moments: list[list[float]] = [[] for _ in range(samples)]
    for arrival in arrivals:
        moments[arrival.sample_index].append(arrival.seconds)
    if not all(moments):
        raise ValueError("a sample got no token")
    last_to_start = max(moments, key=lambda seconds: seconds[0])
    first_end = min(seconds[-1] for seconds in moments)
    within = [second for second in last_to_start if second <= first_end]
    if len(within) < 2:
        raise ValueError("the samples never ran all at one time")
    return SteadySpan(tokens=(len(within) - 1) * samples, seconds=within[-1] - within[0])
