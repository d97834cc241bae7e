"""Generate: the request, the stream of tokens, and the finished rollouts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from types import TracebackType
from typing import Protocol, Self

import grpc
import numpy as np

from lockstep.arrays import (
    Float32Array,
    Int32Array,
    TokenIds,
    float32_from_wire,
    int32_from_wire,
    token_array,
)
from lockstep.errors import LockstepError, error_from_rpc
from lockstep.sampling import FinishReason, SamplingParams, WeightsState
from lockstep.wire import generation_pb2, types_pb2


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


def generate_request(
    prompt: TokenIds,
    sampling: SamplingParams,
    *,
    num_samples: int | None,
    max_tokens: int | None,
    seed: int | None,
    stop_token_ids: TokenIds,
    ignore_eos: bool,
    request_id: str,
) -> generation_pb2.GenerateRequest:
    return generation_pb2.GenerateRequest(
        request_id=request_id,
        prompt_token_ids=token_array(prompt, "prompt").tolist(),
        num_samples=num_samples,
        sampling_params=sampling.to_wire(),
        seed=seed,
        max_tokens=max_tokens,
        stop_token_ids=token_array(stop_token_ids, "stop_token_ids").tolist(),
        ignore_eos=ignore_eos,
    )


class GenerateCall(Protocol):
    """What grpc returns for a Generate call."""

    def __next__(self) -> generation_pb2.GenerateResponse: ...

    def cancel(self) -> object: ...


class TokenStream(Iterator[Delta]):
    """Tokens as they are drawn. Closing it, or leaving its `with` block, cancels the call.

    `seed_used` and `weights` are there from the first delta on. One thread at a time.
    """

    def __init__(self, call: GenerateCall) -> None:
        self._call = call
        self._pending: list[Delta] = []
        self._closed = False
        self.seed_used: int | None = None
        self.weights: WeightsState | None = None

    def __next__(self) -> Delta:
        while not self._pending:
            self._receive()
        return self._pending.pop(0)

    def close(self) -> None:
        """Cancels what is still running. Idempotent; further deltas are not handed out."""
        self._closed = True
        self._pending.clear()
        self._call.cancel()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _receive(self) -> None:
        """Reads one message, or raises StopIteration at the end."""
        if self._closed:
            raise StopIteration
        try:
            message = next(self._call)
        except grpc.RpcError as error:
            raise error_from_rpc(error) from error
        if message.HasField("header"):
            self.seed_used = message.header.seed_used
            self.weights = WeightsState.from_wire(message.header.weights)
        self._pending.extend(Delta.from_wire(delta) for delta in message.deltas)


@dataclass
class _Growing:
    """The deltas of one sample so far."""

    deltas: list[Delta] = field(default_factory=list)

    def finish(self, sampling: SamplingParams, weights: WeightsState, index: int) -> Sample:
        if not self.deltas or self.deltas[-1].finish_reason is None:
            raise LockstepError(f"the stream ended before sample {index} did")
        last = self.deltas[-1]
        return Sample(
            tokens=np.concatenate([delta.tokens for delta in self.deltas]),
            logprobs=np.concatenate([delta.logprobs for delta in self.deltas]),
            raw_logprobs=np.concatenate([delta.raw_logprobs for delta in self.deltas]),
            finish_reason=last.finish_reason or FinishReason.ABORTED,
            stop_token_id=last.stop_token_id,
            sampling=sampling,
            weights=weights,
        )


def gather(
    stream: TokenStream, prompt: TokenIds, sampling: SamplingParams, num_samples: int
) -> Rollouts:
    """Reads a stream to its end. LockstepError when it ends with a sample unfinished."""
    growing = [_Growing() for _ in range(num_samples)]
    with stream:
        for delta in stream:
            growing[delta.sample_index].deltas.append(delta)
    if stream.seed_used is None or stream.weights is None:
        raise LockstepError("the stream ended without a header")
    weights = stream.weights
    return Rollouts(
        prompt=token_array(prompt, "prompt"),
        samples=[g.finish(sampling, weights, index) for index, g in enumerate(growing)],
        seed_used=stream.seed_used,
        weights=weights,
    )
