#!/usr/bin/env python3
"""GRPO on SmolLM2-135M-Instruct: "Which is largest, 27, 82 or 45?", rewarded by an exact check of the answer.

Samples a group of answers to each problem, rewards those that are right, takes a training step on them, and measures on
held-out problems, answered greedily and never trained on. Every sampled token's log-prob is compared bit by bit with
the training forward's; the exit status is 1 if one differs.

bazel-bin/server/lockstep_server --model="$(tools/get_smollm2)" --profile=bf16
.venv/bin/python client/python/examples/smollm2_grpo.py --model-directory "$(tools/get_smollm2)" --plot curve.png
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import lockstep
import numpy as np

NUMBERS = range(10, 100)
# One set of numbers in so many is held out.
HELD_OUT_SHARE = 10
# The answer begins for the model, which leaves " 82." to it: a space, two digits and a full stop are four tokens.
ANSWER_BEGINNING = "The largest number is"
ANSWER_TOKENS_MAX = 4
# AdamW's first steps are as long as any, whatever the gradient: its rate rises over so many.
RAMP_STEPS = 3
# Of one call: a step of many long rollouts may take long on few cores.
CALL_TIMEOUT_S = 3600.0


@dataclass(frozen=True)
class Problem:
    """Which of three different numbers is largest."""

    numbers: tuple[int, int, int]

    @property
    def is_held_out(self) -> bool:
        """By a hash of the numbers in any order, so that none is trained on in another order."""
        return lockstep.derive_seed("held-out", *sorted(self.numbers)) % HELD_OUT_SHARE == 0

    def prompt(self, codec: lockstep.TextCodec) -> np.ndarray:
        first, second, third = self.numbers
        # An empty system message takes the place of the template's own, which is 20 tokens long.
        chat = codec.encode_chat(
            [
                {"role": "system", "content": ""},
                {"role": "user", "content": f"Which is largest, {first}, {second} or {third}?"},
            ]
        )
        return np.concatenate([chat, codec.encode(ANSWER_BEGINNING)])

    def reward(self, codec: lockstep.TextCodec, answer: lockstep.Sample) -> float:
        """1 for the largest number, a full stop if any, and the end; else 0."""
        text = codec.decode(answer.tokens).strip().removesuffix(".")
        ended = answer.finish_reason is lockstep.FinishReason.STOP
        return float(ended and text == str(max(self.numbers)))


def problems(*seed: int | str, held_out: bool) -> Iterator[Problem]:
    """Without end, either held-out ones alone or none of them."""
    for index in itertools.count():
        draw = lockstep.derive_seed(*seed, index)
        first, draw = NUMBERS[draw % len(NUMBERS)], draw // len(NUMBERS)
        second, draw = NUMBERS[draw % len(NUMBERS)], draw // len(NUMBERS)
        third = NUMBERS[draw % len(NUMBERS)]
        problem = Problem((first, second, third))
        if len(set(problem.numbers)) == 3 and problem.is_held_out == held_out:
            yield problem


@dataclass(frozen=True)
class Measurement:
    """Greedy answers to held-out problems, with Wilson's 95% interval (Wilson 1927) of their share of right ones."""

    right: int
    problems: int

    @property
    def reward(self) -> float:
        return self.right / self.problems

    @property
    def interval(self) -> tuple[float, float]:
        z2 = 1.96**2
        centre = (self.right + z2 / 2) / (self.problems + z2)
        spread = self.reward * (1 - self.reward) / self.problems + z2 / (4 * self.problems**2)
        half = math.sqrt(z2 * spread) / (1 + z2 / self.problems)
        return centre - half, centre + half

    def __str__(self) -> str:
        low, high = self.interval
        return f"{self.reward:.3f} ({self.right} of {self.problems}, 95% {low:.3f}-{high:.3f})"

    def to_json(self) -> dict[str, object]:
        return asdict(self) | {"reward": self.reward, "interval_95": self.interval}


@dataclass(frozen=True)
class Step:
    """What one step of GRPO showed."""

    step: int  # from 1
    reward: float  # mean over the step's samples
    held_out: Measurement | None  # after the step, where it was measured
    learning_rate: float
    grad_norm: float
    entropy: float  # nats, mean over the sampled tokens
    sampled_tokens: int
    compared_tokens: int
    mismatched_tokens: int
    weight_version: int
    seconds: float  # of sampling and training

    def __str__(self) -> str:
        held_out = "" if self.held_out is None else f"  held-out {self.held_out}"
        return (
            f"step {self.step:3}  reward {self.reward:.3f}"
            f"  mismatched {self.mismatched_tokens} of {self.compared_tokens} compared"
            f"  {self.seconds:.1f} s{held_out}"
        )

    def to_json(self) -> dict[str, object]:
        held_out = None if self.held_out is None else self.held_out.to_json()
        return asdict(self) | {"held_out": held_out}


class Policy:
    """The served model as one that answers problems. Owns nothing: client and codec are the caller's."""

    def __init__(self, client: lockstep.Client, codec: lockstep.TextCodec) -> None:
        self._client = client
        self._codec = codec
        self._full_stop = codec.encode(".").tolist()

    def answer(
        self,
        problems: Sequence[Problem],
        *,
        num_samples: int = 1,
        temperature: float = 1.0,
        seed: int = 0,
    ) -> tuple[list[lockstep.Rollouts], np.ndarray]:
        """The answers, and their rewards as float64 [problems, num_samples]."""
        groups = self._client.generate_many(
            [problem.prompt(self._codec) for problem in problems],
            sampling=lockstep.SamplingParams(temperature=temperature),
            num_samples=num_samples,
            max_tokens=ANSWER_TOKENS_MAX,
            stop_token_ids=self._full_stop,
            seed=seed,
        )
        rewards = [
            [problem.reward(self._codec, sample) for sample in group.samples]
            for problem, group in zip(problems, groups, strict=True)
        ]
        return groups, np.array(rewards)

    def measure(self, problems: Sequence[Problem]) -> Measurement:
        """Answers greedily: no draw, so the same weights give the same number."""
        _, rewards = self.answer(problems, temperature=0.0)
        return Measurement(int(rewards.sum()), len(problems))


def group_advantages(rewards: np.ndarray) -> np.ndarray:
    """[prompts, samples]: reward minus its group's mean, over the group's deviation (Shao et al. 2024, section 4.1.2).

    0 where all rewards of a group are equal.
    """
    centred = rewards - rewards.mean(axis=1, keepdims=True)
    deviation = rewards.std(axis=1, keepdims=True)
    return np.divide(centred, deviation, out=np.zeros_like(centred), where=deviation > 0)


def reinforce(
    policy: Policy, run: lockstep.Run, held_out: Sequence[Problem], arguments: argparse.Namespace
) -> Iterator[Step]:
    """One result a step. The loss is ppo's; with one update a batch its ratio is 1 to the bit, and nothing is clipped."""
    training = problems(arguments.seed, "training", held_out=False)
    for step in range(1, arguments.steps + 1):
        began = time.monotonic()
        chosen = list(itertools.islice(training, arguments.prompts_per_step))
        groups, rewards = policy.answer(
            chosen,
            num_samples=arguments.samples,
            seed=lockstep.derive_seed(arguments.seed, "rollouts", step),
        )
        learning_rate = arguments.learning_rate * min(1.0, step / RAMP_STEPS)
        # Data of advantage 0 stay: they are compared bit by bit as well.
        result = run.train_step(
            [
                lockstep.Datum.from_rollout(group.prompt, sample, advantage)
                for group, row in zip(groups, group_advantages(rewards), strict=True)
                for sample, advantage in zip(group.samples, row, strict=True)
            ],
            loss="ppo",
            loss_agg_mode="token-mean",
            adamw=lockstep.AdamW(learning_rate=learning_rate, grad_clip_norm=1.0),
        )
        seconds = time.monotonic() - began
        if result.optim_metrics.skipped:
            tensor = result.optim_metrics.non_finite_tensor
            raise RuntimeError(f"step {step}: the gradient of {tensor} is not finite")
        measured = step % arguments.evaluate_every == 0 or step == arguments.steps
        yield Step(
            step=step,
            reward=float(rewards.mean()),
            held_out=policy.measure(held_out) if measured else None,
            learning_rate=learning_rate,
            grad_norm=result.optim_metrics.grad_norm,
            entropy=result.metrics.entropy,
            sampled_tokens=sum(len(s.tokens) for group in groups for s in group.samples),
            compared_tokens=result.metrics.compared_tokens,
            mismatched_tokens=result.metrics.mismatched_tokens,
            weight_version=result.weights.weight_version,
            seconds=seconds,
        )


@dataclass(frozen=True)
class Outcome:
    """A whole run: what it was told, what it saw, and what it left."""

    settings: dict[str, object]
    numerics_id: str
    before: Measurement
    steps: list[Step]
    digest_before: str
    digest_after: str
    seconds: float

    @property
    def after(self) -> Measurement:
        """Of the last step, which is always measured."""
        assert self.steps[-1].held_out is not None
        return self.steps[-1].held_out

    @property
    def compared_tokens(self) -> int:
        return sum(step.compared_tokens for step in self.steps)

    @property
    def mismatched_tokens(self) -> int:
        return sum(step.mismatched_tokens for step in self.steps)

    def to_json(self) -> dict[str, object]:
        return {
            "settings": self.settings,
            "numerics_id": self.numerics_id,
            "held_out_before": self.before.to_json(),
            "held_out_after": self.after.to_json(),
            "compared_tokens": self.compared_tokens,
            "mismatched_tokens": self.mismatched_tokens,
            "weights_digest_before": self.digest_before,
            "weights_digest_after": self.digest_after,
            "seconds": self.seconds,
            "steps": [step.to_json() for step in self.steps],
        }

    def save_plot(self, path: Path) -> None:
        """Reward of each step's samples, and held-out reward with its interval, as a PNG."""
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib import pyplot

        points = [(0, self.before)]
        points += [(step.step, step.held_out) for step in self.steps if step.held_out is not None]
        low, high = np.array([measured.interval for _, measured in points]).T
        rewards = np.array([measured.reward for _, measured in points])
        figure, axes = pyplot.subplots(figsize=(8, 5), layout="constrained")
        axes.plot(
            [step.step for step in self.steps],
            [step.reward for step in self.steps],
            color="tab:grey",
            linewidth=1,
            label="the step's samples, temperature 1",
        )
        axes.errorbar(
            [step for step, _ in points],
            rewards,
            yerr=[rewards - low, high - rewards],
            marker="o",
            capsize=3,
            label=f"{self.before.problems} held-out problems, greedy, 95% interval",
        )
        axes.set_title(
            f"SmolLM2-135M-Instruct, {self.numerics_id}: the largest of three numbers\n"
            f"{self.mismatched_tokens} of {self.compared_tokens:,} compared tokens mismatched"
        )
        axes.set_xlabel("step of GRPO")
        axes.set_ylabel("reward: share of right answers")
        axes.set_ylim(0, 1)
        axes.grid(alpha=0.3)
        axes.legend(loc="lower right")
        figure.savefig(path, dpi=120)
        pyplot.close(figure)


def learn(
    client: lockstep.Client, codec: lockstep.TextCodec, arguments: argparse.Namespace
) -> Outcome:
    """Prints a line a step; RuntimeError when the server is not one for this."""
    began = time.monotonic()
    info = client.info()
    if codec.vocab_size > info.model.vocab_size:
        raise RuntimeError(
            f"the tokenizer has {codec.vocab_size} tokens and the served model"
            f" {info.model.vocab_size}: --model-directory is of another model"
        )
    held_out = list(itertools.islice(problems("held-out", held_out=True), arguments.held_out))
    print(
        f"{info.model.architecture}, {info.model.parameter_count:,} parameters,"
        f" {info.weights.numerics_id}, weights version {info.weights.weight_version}",
        flush=True,
    )
    policy = Policy(client, codec)
    before = policy.measure(held_out)
    print(f"step   0  held-out {before}", flush=True)
    steps = []
    with client.run() as run:
        for step in reinforce(policy, run, held_out, arguments):
            steps.append(step)
            print(step, flush=True)
    return Outcome(
        settings={name: str(value) for name, value in vars(arguments).items()},
        numerics_id=info.weights.numerics_id,
        before=before,
        steps=steps,
        digest_before=info.weights_digest,
        digest_after=client.info().weights_digest,
        seconds=time.monotonic() - began,
    )


def whole_number(minimum: int) -> Callable[[str], int]:
    """Of an argument; argparse names the argument in its message."""

    def parse(text: str) -> int:
        value = int(text) if text.lstrip("+-").isdecimal() else None
        if value is None or value < minimum:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {minimum} on")
        return value

    return parse


def rate(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive number")
    return value


def file_to_write(text: str) -> Path:
    """Checked before the work and not after it."""
    path = Path(text)
    if path.is_dir() or not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"{text!r} is not a file in an existing folder")
    return path


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )

    def add(name: str, kind: Callable[[str], object], default: object, text: str) -> None:
        parser.add_argument(name, type=kind, default=default, help=f"{text} (default: {default})")

    add("--address", str, "127.0.0.1:50551", "host:port of a running server")
    parser.add_argument(
        "--model-directory",
        type=Path,
        required=True,
        help="Hugging Face directory of the served model, for its tokenizer and chat template",
    )
    add("--steps", whole_number(1), 16, "steps of GRPO")
    add("--prompts-per-step", whole_number(1), 4, "problems in a step")
    add("--samples", whole_number(2), 8, "answers to each problem: the group of GRPO")
    add("--learning-rate", rate, 3e-5, f"of AdamW, after a rise over {RAMP_STEPS} steps")
    add("--seed", whole_number(0), 0, "of the problems' order and of every draw")
    add("--held-out", whole_number(1), 128, "held-out problems to measure on")
    add("--evaluate-every", whole_number(1), 10, "steps from one measurement to the next")
    parser.add_argument("--plot", type=file_to_write, help="PNG of the rewards' curves to write")
    parser.add_argument("--json", type=file_to_write, help="file of all numbers to write")
    return parser.parse_args(arguments)


def main() -> int:
    arguments = parse_arguments(sys.argv[1:])
    try:
        codec = lockstep.TextCodec.from_directory(arguments.model_directory)
        with lockstep.Client(arguments.address, timeout=CALL_TIMEOUT_S) as client:
            outcome = learn(client, codec, arguments)
    except lockstep.UnavailableError as error:
        print(f"smollm2_grpo: no server at {arguments.address}: {error}", file=sys.stderr)
        return 2
    except (lockstep.LockstepError, ImportError, OSError, RuntimeError, ValueError) as error:
        print(f"smollm2_grpo: {error}", file=sys.stderr)
        return 2
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(outcome.to_json(), indent=1) + "\n")
    if arguments.plot is not None:
        outcome.save_plot(arguments.plot)
    print(f"held-out reward: {outcome.before} before, {outcome.after} after")
    print(f"mismatched tokens: {outcome.mismatched_tokens} of {outcome.compared_tokens} compared")
    print(f"weights digest: {outcome.digest_before} before, {outcome.digest_after} after")
    print(f"time: {outcome.seconds / 60:.1f} min")
    if outcome.mismatched_tokens > 0 or outcome.compared_tokens == 0:
        print("FAILED: log-probs differ, or none was compared", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
