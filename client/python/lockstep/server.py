"""What the server says of itself, and the answers of Score, CheckParity and ExportModel."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from lockstep.arrays import Float32Array, float32_from_wire
from lockstep.sampling import WeightsState
from lockstep.training import TokenMismatch
from lockstep.wire import generation_pb2, lockstep_pb2


@dataclass(frozen=True)
class ModelInfo:
    """The shape of the served model."""

    architecture: str
    vocab_size: int
    hidden_size: int
    layer_count: int
    head_count: int
    kv_head_count: int
    head_dim: int
    intermediate_size: int
    context_length_max: int
    parameter_count: int
    tie_word_embeddings: bool
    eos_token_ids: tuple[int, ...]

    @classmethod
    def from_wire(cls, message: lockstep_pb2.ModelInfo) -> ModelInfo:
        values = {f.name: getattr(message, f.name) for f in fields(cls)}
        return cls(**values | {"eos_token_ids": tuple(message.eos_token_ids)})


@dataclass(frozen=True)
class MemoryPlan:
    """Bytes that hosting the model takes up, part by part: the sizes of what is allocated.

    `at_start` is the sum of the parts before it; proto/lockstep/v1/lockstep.proto has the formulas.
    """

    masters: int
    moments: int
    gradients: int
    weights: int
    kv_pages: int
    rope_tables: int
    head: int
    at_start: int
    step_activations: int  # from the first step of generation on
    next_weights: int  # while training
    micro_batch_rows: int
    micro_batch_bytes: int  # while training on micro-batches of as many rows

    @classmethod
    def from_wire(cls, message: lockstep_pb2.MemoryPlan) -> MemoryPlan:
        return cls(**{f.name: getattr(message, f.name) for f in fields(cls)})


@dataclass(frozen=True)
class ServerInfo:
    """`config` holds every setting in force, `config_sources` where each came from."""

    server_version: str
    model: ModelInfo
    weights: WeightsState
    weights_digest: str  # 32 hexadecimal digits
    moments_digest: str
    instruction_set: str
    instruction_set_note: str
    config: dict[str, Any]
    config_sources: dict[str, str]
    running_sequences: int
    queued_requests: int
    kv_pages_in_use: int
    kv_pages_total: int
    pinned_weight_versions: int
    memory: MemoryPlan

    @classmethod
    def from_wire(cls, message: lockstep_pb2.GetServerInfoResponse) -> ServerInfo:
        config_fields = message.config.DESCRIPTOR.fields
        values = {f.name: getattr(message, f.name) for f in fields(cls)}
        return cls(
            **values
            | {
                "model": ModelInfo.from_wire(message.model),
                "weights": WeightsState.from_wire(message.weights),
                "memory": MemoryPlan.from_wire(message.memory),
                "config": {f.name: getattr(message.config, f.name) for f in config_fields},
                "config_sources": dict(message.config_sources),
            }
        )


@dataclass(frozen=True)
class SequenceScore:
    """Log-probs of a given sequence [N]; element 0 is NaN, for nothing comes before it."""

    logprobs: Float32Array  # nats, at the asked temperature
    raw_logprobs: Float32Array  # nats, at temperature 1
    entropies: Float32Array  # nats

    @classmethod
    def from_wire(cls, message: generation_pb2.SequenceScore) -> SequenceScore:
        return cls(**{f.name: float32_from_wire(getattr(message, f.name)) for f in fields(cls)})


@dataclass(frozen=True)
class Scores:
    """One score per sequence, in order."""

    sequences: list[SequenceScore]
    weights: WeightsState

    @classmethod
    def from_wire(cls, message: generation_pb2.ScoreResponse) -> Scores:
        return cls(
            [SequenceScore.from_wire(score) for score in message.scores],
            WeightsState.from_wire(message.weights),
        )


@dataclass(frozen=True)
class ParityComparison:
    """One path over the sampled tokens, against the log-probs they were sampled with."""

    name: str
    compared_tokens: int
    mismatched_tokens: int
    first_mismatch: TokenMismatch | None
    k3_kl: float

    @classmethod
    def from_wire(cls, message: lockstep_pb2.ParityComparison) -> ParityComparison:
        differs = message.HasField("first_mismatch")
        return cls(
            name=message.name,
            compared_tokens=message.compared_tokens,
            mismatched_tokens=message.mismatched_tokens,
            first_mismatch=TokenMismatch.from_wire(message.first_mismatch) if differs else None,
            k3_kl=message.k3_kl,
        )


@dataclass(frozen=True)
class ParityReport:
    """`passed`: something was compared and nothing differs."""

    passed: bool
    compared_tokens: int
    mismatched_tokens: int
    comparisons: list[ParityComparison]
    weights: WeightsState
    weights_digest: str

    @classmethod
    def from_wire(cls, message: lockstep_pb2.CheckParityResponse) -> ParityReport:
        return cls(
            passed=message.passed,
            compared_tokens=message.compared_tokens,
            mismatched_tokens=message.mismatched_tokens,
            comparisons=[ParityComparison.from_wire(row) for row in message.comparisons],
            weights=WeightsState.from_wire(message.weights),
            weights_digest=message.weights_digest,
        )


@dataclass(frozen=True)
class ExportedModel:
    """`path` is on the server's machine."""

    path: str
    weights: WeightsState
    bytes: int

    @classmethod
    def from_wire(cls, message: lockstep_pb2.ExportModelResponse) -> ExportedModel:
        return cls(message.path, WeightsState.from_wire(message.weights), message.bytes)
