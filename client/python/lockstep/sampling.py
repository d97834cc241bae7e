"""How tokens are drawn, and from which state of the weights."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from enum import Enum

from lockstep.wire import types_pb2


class FinishReason(Enum):
    """Why a sample ended."""

    STOP = types_pb2.FINISH_REASON_STOP
    LENGTH = types_pb2.FINISH_REASON_LENGTH
    ABORTED = types_pb2.FINISH_REASON_ABORTED


@dataclass(frozen=True)
class SamplingParams:
    """Logits are divided by `temperature`; then top_k, top_p, min_p keep a subset, in this order.

    None and 0 leave the choice to the server: temperature 1, no truncation. temperature=0.0 is
    greedy.
    """

    temperature: float | None = None
    top_p: float | None = None
    top_k: int = 0
    min_p: float | None = None

    def to_wire(self) -> types_pb2.SamplingParams:
        return types_pb2.SamplingParams(
            temperature=self.temperature, top_p=self.top_p, top_k=self.top_k, min_p=self.min_p
        )


@dataclass(frozen=True)
class WeightsState:
    """A state of the weights. Servers with equal state_id and numerics_id give equal bits."""

    state_id: bytes
    weight_version: int
    numerics_id: str

    @classmethod
    def from_wire(cls, message: types_pb2.WeightsState) -> WeightsState:
        return cls(message.state_id, message.weight_version, message.numerics_id)

    def to_wire(self) -> types_pb2.WeightsState:
        return types_pb2.WeightsState(
            state_id=self.state_id,
            weight_version=self.weight_version,
            numerics_id=self.numerics_id,
        )


def derive_seed(*parts: int | str) -> int:
    """A 64-bit seed from a base seed and what tells the draws apart, such as step and prompt.

    Sums would collide (step 1, prompt 0 with step 0, prompt 1); a hash does not.
    """
    text = "/".join(str(part) for part in parts)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")
