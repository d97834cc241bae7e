"""Goal: a trained model against transformers, and against itself, in both profiles and on one to four stages.

Method: small_llama, which tests/golden/train_small_llama.py taught some licence texts: peaked distributions, text that can
be read, two ids that end a sequence, and more rows of vocabulary than tokens. Stored beside it is what transformers makes
of it in fp32. Every combination has one server for what only reads weights; training has servers of its own.
"""

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import lockstep
import numpy as np
import pytest
import safetensors.numpy
from addition_rl.learning import group_advantages, grpo_data
from lockstep.arrays import Float32Array, Int32Array
from model_checks import check_greedy, check_parity, serve

MODEL = Path(__file__).resolve().parents[1] / "golden" / "small_llama"
EOS, END = 257, 258
TOKENIZER_SIZE = 259
VOCABULARY = 320  # ids from TOKENIZER_SIZE on are padding: rows of the model that are no token

# As in tests/core/model/golden_test.cc, which derives it: all rounding in fp32 is like a relative
# error of this size in every weight, and twice it between two that round. The longest chain is
# attention over the whole context of 256. In bf16 three operands of every product are rounded too.
FP32_ERROR = (256**0.5 + 8) * 2.0**-24
BF16_ERROR = FP32_ERROR + 3 * 2.0**-9
ELEMENT_DEVIATIONS = 6

EVERYWHERE = [("fp32", 1), ("fp32", 2), ("fp32", 4), ("bf16", 1), ("bf16", 2)]
everywhere = pytest.mark.parametrize(("profile", "stages"), EVERYWHERE, scope="module")
in_fp32 = pytest.mark.parametrize(("profile", "stages"), EVERYWHERE[:3], scope="module")


@pytest.fixture(scope="module")
def reader(profile: str, stages: int) -> Iterator[lockstep.Client]:
    """Of the server that tests share: they leave its weights as they are."""
    with serve(MODEL, profile=profile, stages=stages) as client:
        yield client


@cache
def golden() -> dict[str, np.ndarray]:
    return safetensors.numpy.load_file(MODEL / "golden.safetensors")


@cache
def continuations() -> list[dict[str, Any]]:
    stored: list[dict[str, Any]] = json.loads((MODEL / "continuations.json").read_text())[
        "continuations"
    ]
    return stored


def sequences(name: str) -> list[Int32Array]:
    """The sequences whose log-probs, from the second id on, are stored under `name`."""
    lengths = golden()[f"{name}.sequence_lengths"]
    splits = np.cumsum(lengths)[:-1]
    inputs = np.split(golden()[f"{name}.tokens"], splits)
    targets = np.split(golden()[f"{name}.targets"], splits)
    return [np.append(given, last[-1:]) for given, last in zip(inputs, targets, strict=True)]


def scored(client: lockstep.Client, name: str) -> Float32Array:
    scores = client.score(sequences(name)).sequences
    return np.concatenate([score.logprobs[1:] for score in scores])


def excess(logprobs: Float32Array, name: str, error: float) -> float:
    """By how many times rounding's tolerance log-probs differ from the stored ones, at most."""
    tolerance = 2 * error * golden()[f"{name}.sensitivity.log_prob"][0]
    difference = logprobs.astype(float) - golden()[f"{name}.log_prob"]
    root_mean_square = np.sqrt(np.mean(difference**2))
    largest = np.abs(difference).max() / ELEMENT_DEVIATIONS
    return float(max(root_mean_square, largest) / tolerance)


@everywhere
@pytest.mark.parametrize("name", ["held_out", "padded"])
def test_log_probs_are_those_of_transformers(
    reader: lockstep.Client, profile: str, name: str
) -> None:
    logprobs = scored(reader, name)
    if profile == "fp32":
        assert excess(logprobs, name, FP32_ERROR) <= 1
    else:
        assert excess(logprobs, name, BF16_ERROR) <= 1
        assert excess(logprobs, name, FP32_ERROR) > 1, "the profile rounds nothing"


@everywhere
def test_perplexity_of_held_out_text(reader: lockstep.Client, profile: str) -> None:
    loss = -scored(reader, "held_out").mean(dtype=float)
    stored = float(golden()["held_out.loss"][0])
    if profile == "fp32":
        assert abs(loss - stored) <= 2 * FP32_ERROR * golden()["held_out.sensitivity.loss"][0]
    else:
        assert abs(np.expm1(loss - stored)) <= 0.005


@in_fp32
def test_greedy_continuations_are_those_of_transformers(reader: lockstep.Client) -> None:
    check_greedy(reader, continuations())


@in_fp32
def test_generation_ends_where_that_of_transformers_does(reader: lockstep.Client) -> None:
    # The list of generation_config.json, not the one id of config.json.
    assert json.loads((MODEL / "config.json").read_text())["eos_token_id"] == EOS
    assert reader.info().model.eos_token_ids == (EOS, END)
    ends = set()
    for continuation in continuations():
        rollouts = reader.generate(
            continuation["prompt_tokens"],
            sampling=lockstep.SamplingParams(temperature=0.0),
            max_tokens=len(continuation["tokens"]),
        )
        (sample,) = rollouts.samples
        assert sample.tokens.tolist() == continuation["generated"]
        stopped = sample.finish_reason is lockstep.FinishReason.STOP
        assert sample.stop_token_id == (continuation["generated"][-1] if stopped else None)
        ends.add(sample.stop_token_id)
    assert ends == {EOS, END, None}


@everywhere
def test_parity_of_2048_sampled_tokens(reader: lockstep.Client, profile: str, stages: int) -> None:
    prompts = [text[: 1 + 20 * i] for i, text in enumerate(sequences("held_out")[:7])]
    prompts.append(sequences("padded")[0][:50])
    check_parity(reader, f"{profile}-v1-l1", prompts, num_samples=4, max_tokens=64)


@everywhere
def test_padded_ids_are_drawn_and_scored_like_any_other(reader: lockstep.Client) -> None:
    codec = lockstep.TextCodec.from_directory(MODEL)
    assert (codec.vocab_size, reader.info().model.vocab_size) == (TOKENIZER_SIZE, VOCABULARY)
    prompt = [VOCABULARY - 1]
    (sample,) = reader.generate(
        prompt,
        # So hot that they are drawn often.
        sampling=lockstep.SamplingParams(temperature=20.0),
        max_tokens=200,
        seed=5,
        ignore_eos=True,
    ).samples
    assert np.count_nonzero(sample.tokens >= TOKENIZER_SIZE) >= 20
    (score,) = reader.score([[*prompt, *sample.tokens]], temperature=20.0).sequences
    assert score.logprobs[1:].tobytes() == sample.logprobs.tobytes()
    assert codec.encode("text").tolist() == [*b"text"]
    assert codec.decode([*b"text", *prompt]) == "text"
    with pytest.raises(lockstep.InvalidArgumentError, match=r"prompt_token_ids\[0\].*320"):
        reader.generate([VOCABULARY])


@everywhere
def test_steps_of_cross_entropy_are_those_of_transformers(profile: str, stages: int) -> None:
    """On text and on padded ids."""
    chosen = [*sequences("held_out")[:4], *sequences("padded")]
    data = [lockstep.Datum(sequence[:-1], sequence[1:]) for sequence in chosen]
    stored = golden()["training_losses"].astype(float)
    losses = []
    with serve(MODEL, profile=profile, stages=stages) as client, client.run() as run:
        for _ in stored:
            step = run.train_step(
                data,
                loss="cross_entropy",
                loss_agg_mode="token-mean",
                adamw=lockstep.AdamW(learning_rate=1e-3),
            )
            losses.append(step.metrics.loss)
    # As a share of the way that the steps have gone. They fan rounding out, so there is no formula.
    share_max = 1e-5 if profile == "fp32" else 1e-2
    assert np.abs(losses - stored).max() <= share_max * (stored[0] - stored[-1])


def learn_spaces(**flags: str | int) -> tuple[list[float], str]:
    """Mean reward of each step of GRPO for spaces, and the digest of the weights after the last."""
    prompts = [continuation["prompt_tokens"] for continuation in continuations()]
    rewards = []
    with serve(MODEL, **flags) as client, client.run("spaces") as run:
        for index in range(4):
            groups = client.generate_many(
                prompts, num_samples=8, max_tokens=16, seed=index, ignore_eos=True
            )
            spaces = [
                [np.mean(sample.tokens == ord(" ")) for sample in group.samples] for group in groups
            ]
            step = run.train_step(
                grpo_data(groups, group_advantages(np.array(spaces))),
                loss="ppo",
                loss_agg_mode="token-mean",
                adamw=lockstep.AdamW(learning_rate=3e-3),
            )
            assert step.metrics.compared_tokens == len(prompts) * 8 * 16
            assert step.metrics.mismatched_tokens == 0
            rewards.append(float(np.mean(spaces)))
        return rewards, client.info().weights_digest


@pytest.mark.parametrize(("profile", "stages"), [("fp32", 2), ("bf16", 4)])
def test_on_policy_steps_raise_the_reward_alike_however_the_work_is_split(
    profile: str, stages: int
) -> None:
    rewards, digest = learn_spaces(profile=profile)
    assert rewards[-1] > 1.3 * rewards[0]
    split = learn_spaces(profile=profile, stages=stages, micro_batch_size=5)
    assert split == (rewards, digest)
