"""Values of ForwardBackward, OptimStep and TrainStep: what a step is asked and what it answers."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from typing import Any, NotRequired, TypedDict, TypeVar

from google.protobuf.message import Message

from lockstep.arrays import Float32Array, float32_from_wire
from lockstep.sampling import WeightsState
from lockstep.wire import training_pb2

Value = TypeVar("Value")

_LOSS_KINDS = {
    "cross_entropy": training_pb2.LOSS_KIND_CROSS_ENTROPY,
    "ppo": training_pb2.LOSS_KIND_PPO,
}
_LOSS_AGG_MODES = {
    "token-sum": training_pb2.LOSS_AGG_MODE_TOKEN_SUM,
    "token-mean": training_pb2.LOSS_AGG_MODE_TOKEN_MEAN,
}


@dataclass(frozen=True)
class Loss:
    """A loss by its name, and the bounds of ppo's ratio (None: 0.8 and 1.2).

    "cross_entropy": sum of -weight * logprob. "ppo": the clipped surrogate over sampled tokens.
    """

    kind: str
    clip_low_threshold: float | None = None
    clip_high_threshold: float | None = None

    def to_wire(self) -> training_pb2.LossConfig:
        return training_pb2.LossConfig(
            kind=_by_name(_LOSS_KINDS, self.kind, "loss"),
            clip_low_threshold=self.clip_low_threshold,
            clip_high_threshold=self.clip_high_threshold,
        )


class LossOptions(TypedDict):
    """What forward_backward() and train_step() are told beside the data."""

    loss: Loss | str  # a name alone stands for Loss(name)
    # What divides a step's summed token losses: "token-sum" (default) nothing, "token-mean" their
    # number.
    loss_agg_mode: NotRequired[str]
    # Data per micro-batch; never changes a bit. 0 (default): the server's setting.
    micro_batch_size: NotRequired[int]


@dataclass(frozen=True)
class AdamW:
    """AdamW's options; None leaves one to the server (0.9, 0.95, 1e-8, no decay, no clipping)."""

    learning_rate: float
    beta1: float | None = None
    beta2: float | None = None
    epsilon: float | None = None
    weight_decay: float | None = None
    grad_clip_norm: float | None = None

    def to_wire(self) -> training_pb2.AdamWParams:
        return training_pb2.AdamWParams(**{f.name: getattr(self, f.name) for f in fields(self)})


@dataclass(frozen=True)
class TokenMismatch:
    """The first token whose two log-probs differ, with both bit patterns."""

    datum_index: int
    position: int
    expected_bits: int
    actual_bits: int

    @classmethod
    def from_wire(cls, message: training_pb2.TokenMismatch) -> TokenMismatch:
        return cls(**_scalars(message, cls))


@dataclass(frozen=True)
class TrainMetrics:
    """Metrics of one call's data. Zero `compared_tokens` is not a pass."""

    loss: float
    token_count: int
    entropy: float
    ppo_kl: float
    pg_clipfrac: float
    compared_tokens: int
    mismatched_tokens: int
    rollout_probs_diff_max: float
    rollout_probs_diff_mean: float
    k3_kl: float
    tokens_per_second: float
    bubble_fraction: float
    first_mismatch: TokenMismatch | None

    @classmethod
    def from_wire(cls, message: training_pb2.TrainMetrics) -> TrainMetrics:
        differs = message.HasField("first_mismatch")
        mismatch = TokenMismatch.from_wire(message.first_mismatch) if differs else None
        return cls(**_scalars(message, cls, without="first_mismatch"), first_mismatch=mismatch)


@dataclass(frozen=True)
class OptimMetrics:
    """`grad_norm` is before clipping; a step with a gradient that is not finite is `skipped`."""

    grad_norm: float
    skipped: bool
    non_finite_tensor: str
    loss_denominator: float

    @classmethod
    def from_wire(cls, message: training_pb2.OptimMetrics) -> OptimMetrics:
        return cls(**_scalars(message, cls))


@dataclass(frozen=True)
class ForwardBackwardResult:
    """`logprobs`: per datum, float32 [N], NaN where its mask is 0.

    `weights` are those that the gradients were taken at.
    """

    logprobs: list[Float32Array]
    metrics: TrainMetrics
    weights: WeightsState

    @classmethod
    def from_wire(cls, message: training_pb2.ForwardBackwardResponse) -> ForwardBackwardResult:
        return cls(
            logprobs=_logprobs(message.results),
            metrics=TrainMetrics.from_wire(message.metrics),
            weights=WeightsState.from_wire(message.weights),
        )


@dataclass(frozen=True)
class OptimStepResult:
    """`weights` are the new ones."""

    metrics: OptimMetrics
    weights: WeightsState

    @classmethod
    def from_wire(cls, message: training_pb2.OptimStepResponse) -> OptimStepResult:
        return cls(OptimMetrics.from_wire(message.metrics), WeightsState.from_wire(message.weights))


@dataclass(frozen=True)
class TrainStepResult:
    """As ForwardBackwardResult and OptimStepResult; `weights` are the new ones."""

    logprobs: list[Float32Array]
    metrics: TrainMetrics
    optim_metrics: OptimMetrics
    weights: WeightsState

    @classmethod
    def from_wire(cls, message: training_pb2.TrainStepResponse) -> TrainStepResult:
        return cls(
            logprobs=_logprobs(message.results),
            metrics=TrainMetrics.from_wire(message.metrics),
            optim_metrics=OptimMetrics.from_wire(message.optim_metrics),
            weights=WeightsState.from_wire(message.weights),
        )


def loss_fields(
    *, loss: Loss | str, loss_agg_mode: str = "token-sum", micro_batch_size: int = 0
) -> dict[str, Any]:
    """LossOptions as fields of a request; ValueError for a name that is not known."""
    return {
        "loss": (Loss(loss) if isinstance(loss, str) else loss).to_wire(),
        "loss_agg_mode": _by_name(_LOSS_AGG_MODES, loss_agg_mode, "loss_agg_mode"),
        "micro_batch_size": micro_batch_size,
    }


def _by_name(values: Mapping[str, Value], name: str, what: str) -> Value:
    if name not in values:
        raise ValueError(f"{what} is {name!r}; known are {', '.join(values)}")
    return values[name]


def _scalars(message: Message, kind: type, without: str = "") -> dict[str, Any]:
    """The message's fields of the dataclass' names, as keyword arguments."""
    return {f.name: getattr(message, f.name) for f in fields(kind) if f.name != without}


def _logprobs(results: Collection[training_pb2.DatumResult]) -> list[Float32Array]:
    return [float32_from_wire(result.logprobs) for result in results]
