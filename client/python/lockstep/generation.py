"""Generate: what is asked, the tokens as they come, and the finished rollouts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import TypedDict, Unpack

import numpy as np

from lockstep.arrays import (
    Float32Array,
    Int32Array,
    TokenIds,
    float32_from_wire,
    int32_from_wire,
    token_array,
)
from lockstep.errors import LockstepError
from lockstep.sampling import FinishReason, SamplingParams, WeightsState, derive_seed
from lockstep.wire import generation_pb2, types_pb2

# Requests that generate_many has open at one time, unless told.
CONCURRENCY_DEFAULT = 32


@dataclass(frozen=True)
class Delta:
    """New tokens of one sample, as one step of the engine drew them."""

    sample_index: int
    tokens: Int32Array  # [n]
    logprobs: Float32Array  # [n] nats, under the distribution each token was drawn from
    raw_logprobs: Float32Array  # [n] nats, at temperature 1 over the whole vocabulary
    finish_reason: FinishReason | None  # None while the sample goes on
    stop_token_id: int | None

    @classmethod
    def from_wire(cls, message: generation_pb2.SampleDelta) -> Delta:
        finished = message.finish_reason != types_pb2.FINISH_REASON_UNSPECIFIED
        reason = FinishReason(message.finish_reason) if finished else None
        return cls(
            sample_index=message.sample_index,
            tokens=int32_from_wire(message.token_ids),
            logprobs=float32_from_wire(message.logprobs),
            raw_logprobs=float32_from_wire(message.raw_logprobs),
            finish_reason=reason,
            stop_token_id=message.stop_token_id if reason is FinishReason.STOP else None,
        )


@dataclass(frozen=True)
class Sample:
    """One finished continuation, with what Datum.from_rollout needs to train on it."""

    tokens: Int32Array  # [n], the stop token among them
    logprobs: Float32Array  # [n] nats, under the distribution each token was drawn from
    raw_logprobs: Float32Array  # [n] nats, at temperature 1 over the whole vocabulary
    finish_reason: FinishReason
    stop_token_id: int | None
    sampling: SamplingParams
    weights: WeightsState


@dataclass(frozen=True)
class Rollouts:
    """All samples of one prompt, in the order of their sample index."""

    prompt: Int32Array
    samples: list[Sample]
    seed_used: int
    weights: WeightsState


class GenerateOptions(TypedDict, total=False):
    """What stream(), generate() and generate_many() may be told beside the prompt."""

    sampling: SamplingParams | None  # None: SamplingParams()
    num_samples: int  # of each prompt; 1 unless told
    max_tokens: int | None  # of each sample; None: the server's default, 16
    seed: int | None  # None: a fresh one, told by `seed_used`
    stop_token_ids: TokenIds  # [n]; a sample ends with one of them
    ignore_eos: bool


@dataclass(frozen=True)
class Generation:
    """What one Generate call is asked: a prompt, and GenerateOptions with their defaults."""

    prompt: TokenIds
    _: KW_ONLY
    sampling: SamplingParams | None = None
    num_samples: int = 1
    max_tokens: int | None = None
    seed: int | None = None
    stop_token_ids: TokenIds = ()
    ignore_eos: bool = False

    def to_wire(self, request_id: str) -> generation_pb2.GenerateRequest:
        return generation_pb2.GenerateRequest(
            request_id=request_id,
            prompt_token_ids=token_array(self.prompt, "prompt").tolist(),
            num_samples=self.num_samples,
            sampling_params=(self.sampling or SamplingParams()).to_wire(),
            seed=self.seed,
            max_tokens=self.max_tokens,
            stop_token_ids=token_array(self.stop_token_ids, "stop_token_ids").tolist(),
            ignore_eos=self.ignore_eos,
        )


def generations(
    prompts: Sequence[TokenIds], **options: Unpack[GenerateOptions]
) -> list[Generation]:
    """One for each prompt: prompt i with derive_seed(seed, i), so equal prompts differ."""
    alike = [Generation(prompt, **options) for prompt in prompts]
    return [
        asked if asked.seed is None else replace(asked, seed=derive_seed(asked.seed, index))
        for index, asked in enumerate(alike)
    ]


class RolloutBuilder:
    """Puts the deltas of one Generation together."""

    def __init__(self, asked: Generation) -> None:
        self._asked = asked
        self._deltas: list[list[Delta]] = [[] for _ in range(asked.num_samples)]

    def add(self, delta: Delta) -> None:
        self._deltas[delta.sample_index].append(delta)

    def finish(self, seed_used: int | None, weights: WeightsState | None) -> Rollouts:
        """After the stream's end, with what its header told; LockstepError if it came too early."""
        if seed_used is None or weights is None:
            raise LockstepError("the stream ended without a header")
        return Rollouts(
            prompt=token_array(self._asked.prompt, "prompt"),
            samples=[self._sample(index, weights) for index in range(len(self._deltas))],
            seed_used=seed_used,
            weights=weights,
        )

    def _sample(self, index: int, weights: WeightsState) -> Sample:
        deltas = self._deltas[index]
        finish_reason = deltas[-1].finish_reason if deltas else None
        if finish_reason is None:
            raise LockstepError(f"the stream ended before sample {index} did")
        return Sample(
            tokens=np.concatenate([delta.tokens for delta in deltas]),
            logprobs=np.concatenate([delta.logprobs for delta in deltas]),
            raw_logprobs=np.concatenate([delta.raw_logprobs for delta in deltas]),
            finish_reason=finish_reason,
            stop_token_id=deltas[-1].stop_token_id,
            sampling=self._asked.sampling or SamplingParams(),
            weights=weights,
        )
