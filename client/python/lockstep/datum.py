"""One training sequence: position i reads model_input[i] and scores target_tokens[i]."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lockstep.arrays import Float32Array, Int32Array, TokenIds, float32_array, token_array
from lockstep.generation import Sample
from lockstep.sampling import SamplingParams, WeightsState
from lockstep.wire import training_pb2


@dataclass(frozen=True)
class Datum:
    """Arrays of the length N of `model_input`; None leaves an array out (mask and weights: all 1).

    `logprobs` are those the targets were sampled with. With `sampled_under` beside them the server
    compares them with its training forward bit by bit.
    """

    model_input: Int32Array
    target_tokens: Int32Array
    mask: Float32Array | None = None
    weights: Float32Array | None = None
    logprobs: Float32Array | None = None
    advantages: Float32Array | None = None
    sampling: SamplingParams | None = None
    sampled_under: WeightsState | None = None

    @classmethod
    def from_rollout(
        cls,
        prompt: TokenIds,
        sample: Sample,
        advantages: npt.ArrayLike,
        *,
        weights: npt.ArrayLike | None = None,
    ) -> Datum:
        """The datum of a sampled continuation.

        `advantages` and `weights` are one number, or one per sampled token. Prompt positions have
        mask 0, log-prob NaN and advantage 0.
        """
        model_input, target_tokens, mask = _shifted(prompt, sample.tokens, "sample.tokens")
        count = len(sample.tokens)
        scored = slice(len(model_input) - count, None)
        logprobs = np.full(len(model_input), np.nan, np.float32)
        logprobs[scored] = sample.logprobs
        advantage_array = np.zeros(len(model_input), np.float32)
        advantage_array[scored] = float32_array(advantages, count, "advantages")
        return cls(
            model_input,
            target_tokens,
            mask=mask,
            weights=_scored_weights(weights, len(model_input), count),
            logprobs=logprobs,
            advantages=advantage_array,
            sampling=sample.sampling,
            sampled_under=sample.weights,
        )

    @classmethod
    def from_text_pair(
        cls,
        prompt_ids: TokenIds,
        completion_ids: TokenIds,
        *,
        weights: npt.ArrayLike | None = None,
    ) -> Datum:
        """The datum of a written continuation, for cross_entropy; `weights` as in from_rollout."""
        model_input, target_tokens, mask = _shifted(prompt_ids, completion_ids, "completion_ids")
        return cls(
            model_input,
            target_tokens,
            mask=mask,
            weights=_scored_weights(weights, len(model_input), len(completion_ids)),
        )

    def to_wire(self) -> training_pb2.Datum:
        return training_pb2.Datum(
            model_input=self.model_input.tolist(),
            target_tokens=self.target_tokens.tolist(),
            mask=_wire_floats(self.mask),
            weights=_wire_floats(self.weights),
            logprobs=_wire_floats(self.logprobs),
            advantages=_wire_floats(self.advantages),
            sampling_params=None if self.sampling is None else self.sampling.to_wire(),
            sampled_under=None if self.sampled_under is None else self.sampled_under.to_wire(),
        )


def _shifted(
    prompt: TokenIds, completion: TokenIds, completion_name: str
) -> tuple[Int32Array, Int32Array, Float32Array]:
    """model_input, target_tokens and the mask that is 1 on the completion."""
    prompt_array = token_array(prompt, "prompt")
    completion_array = token_array(completion, completion_name)
    if not prompt_array.size or not completion_array.size:
        raise ValueError(f"prompt and {completion_name} need at least one token each")
    sequence = np.concatenate([prompt_array, completion_array])
    mask = np.ones(len(sequence) - 1, np.float32)
    mask[: len(prompt_array) - 1] = 0.0
    return sequence[:-1], sequence[1:], mask


def _scored_weights(
    weights: npt.ArrayLike | None, length: int, scored_count: int
) -> Float32Array | None:
    if weights is None:
        return None
    result = np.zeros(length, np.float32)
    result[length - scored_count :] = float32_array(weights, scored_count, "weights")
    return result


def _wire_floats(array: Float32Array | None) -> list[float]:
    if array is None:
        return []
    return np.asarray(array, np.float32).tolist()  # type: ignore[no-any-return]
