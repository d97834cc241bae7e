"""Goal: a Datum scores exactly the completion, shifted by one, and carries what the comparison of bits needs."""

import lockstep
import numpy as np
import pytest
from lockstep.wire import training_pb2

WEIGHTS = lockstep.WeightsState(state_id=b"\x01" * 32, weight_version=2, numerics_id="fp32-v1-l1")


def make_sample(logprobs: np.ndarray) -> lockstep.Sample:
    return lockstep.Sample(
        tokens=np.arange(50, 50 + len(logprobs), dtype=np.int32),
        logprobs=logprobs,
        raw_logprobs=logprobs,
        finish_reason=lockstep.FinishReason.LENGTH,
        stop_token_id=None,
        sampling=lockstep.SamplingParams(temperature=0.7),
        weights=WEIGHTS,
    )


def test_rollout_is_shifted_and_masked() -> None:
    logprobs = np.array([-0.1, -0.2, -0.3], np.float32)
    datum = lockstep.Datum.from_rollout([256, 7, 8], make_sample(logprobs), 1.5)

    np.testing.assert_array_equal(datum.model_input, [256, 7, 8, 50, 51])
    np.testing.assert_array_equal(datum.target_tokens, [7, 8, 50, 51, 52])
    np.testing.assert_array_equal(datum.mask, [0, 0, 1, 1, 1])
    np.testing.assert_array_equal(datum.advantages, np.float32([0, 0, 1.5, 1.5, 1.5]))
    np.testing.assert_array_equal(datum.logprobs, np.float32([np.nan, np.nan, -0.1, -0.2, -0.3]))
    assert datum.weights is None
    assert datum.sampling == lockstep.SamplingParams(temperature=0.7)
    assert datum.sampled_under == WEIGHTS


def test_prompt_and_completion_of_one_token_each() -> None:
    datum = lockstep.Datum.from_rollout([9], make_sample(np.float32([-2.0])), [-1.0])

    np.testing.assert_array_equal(datum.model_input, [9])
    np.testing.assert_array_equal(datum.target_tokens, [50])
    np.testing.assert_array_equal(datum.mask, [1])
    np.testing.assert_array_equal(datum.advantages, [-1])
    np.testing.assert_array_equal(datum.logprobs, [-2])


def test_text_pair_scores_the_completion_only() -> None:
    datum = lockstep.Datum.from_text_pair([1, 2], [3, 4], weights=[0.5, -1.0])

    np.testing.assert_array_equal(datum.model_input, [1, 2, 3])
    np.testing.assert_array_equal(datum.target_tokens, [2, 3, 4])
    np.testing.assert_array_equal(datum.mask, [0, 1, 1])
    np.testing.assert_array_equal(datum.weights, np.float32([0, 0.5, -1]))
    assert datum.logprobs is None
    assert datum.sampled_under is None


def test_logprobs_keep_their_bits_through_the_wire() -> None:
    # Every exponent, denormals among them, and values whose decimal form is long.
    bits = np.random.default_rng(1).integers(0, 2**32, 4096, dtype=np.uint32)
    logprobs = bits.view(np.float32)
    logprobs = logprobs[~np.isnan(logprobs)]
    datum = lockstep.Datum.from_rollout([1, 2], make_sample(logprobs), 0.0)

    message = training_pb2.Datum.FromString(datum.to_wire().SerializeToString())
    received = np.array(message.logprobs, np.float32)

    assert np.isnan(received[0])
    np.testing.assert_array_equal(received[1:].view(np.uint32), logprobs.view(np.uint32))
    assert message.sampled_under.state_id == WEIGHTS.state_id
    # 0.7 is no float32; what was asked is what is replayed.
    assert np.float32(message.sampling_params.temperature) == np.float32(0.7)


def test_unset_arrays_and_messages_stay_unset_on_the_wire() -> None:
    message = lockstep.Datum.from_text_pair([1], [2]).to_wire()

    assert not message.weights
    assert not message.logprobs
    assert not message.advantages
    assert not message.HasField("sampling_params")
    assert not message.HasField("sampled_under")


@pytest.mark.parametrize(
    ("prompt", "completion", "message"),
    [
        ([], [1], "prompt and completion_ids need at least one token each"),
        ([1], [], "prompt and completion_ids need at least one token each"),
        ([[1]], [1], "prompt must have one dimension"),
        ([1.5], [1], "prompt must be integers"),
        ([1], [2**31], "completion_ids must fit 32 bits"),
    ],
)
def test_bad_ids_are_refused_by_name(prompt: list, completion: list, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        lockstep.Datum.from_text_pair(prompt, completion)


def test_advantages_of_another_length_are_refused() -> None:
    sample = make_sample(np.float32([-1.0, -1.0]))
    with pytest.raises(ValueError, match=r"advantages must have shape \(2,\), not \(3,\)"):
        lockstep.Datum.from_rollout([1], sample, [1.0, 2.0, 3.0])
