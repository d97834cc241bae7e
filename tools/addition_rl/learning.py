"""The two halves of the quickstart: learning by examples, then by reward. What they do follows from the seed alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import lockstep
import numpy as np

from addition_rl.problems import ANSWER_TOKENS_MAX, Problem, ProblemStream


@dataclass(frozen=True)
class Schedule:
    """Step counts, sizes and rates; the defaults are what the README's numbers were made with."""

    seed: int = 0
    # Digits are added modulo 10 late and suddenly, between steps 550 and 750: this is half-way.
    warmup_steps: int = 660
    warmup_batch: int = 64
    warmup_learning_rate: float = 2e-3
    # Steps over which the learning rate rises from 0.
    warmup_ramp_steps: int = 30
    rl_steps: int = 200
    rl_prompts: int = 64
    rl_samples_per_prompt: int = 8
    # Reached after a ramp, while AdamW's moments turn from one loss to the other; then it falls to
    # 0 along a line.
    rl_learning_rate: float = 5e-4
    rl_ramp_steps: int = 5
    grad_clip_norm: float = 1.0
    # Held-out accuracy is measured on the way, too, on this many problems, every so many steps.
    probe_problems: int = 200
    probe_every_steps: int = 20


@dataclass(frozen=True)
class WarmupStep:
    """What one step of cross_entropy showed."""

    index: int
    loss: float  # nats a token
    tokens_per_second: float


@dataclass(frozen=True)
class RlStep:
    """What one step of GRPO showed. `reward` is the mean over all samples."""

    index: int
    reward: float
    loss: float
    entropy: float
    compared_tokens: int
    mismatched_tokens: int
    tokens_per_second: float


def warm_up(
    run: lockstep.Run, problems: Sequence[Problem], schedule: Schedule
) -> Iterator[WarmupStep]:
    """Cross entropy on written answers, one result a step."""
    stream = ProblemStream(list(problems), lockstep.derive_seed(schedule.seed, "warm-up"))
    for index in range(1, schedule.warmup_steps + 1):
        ramp = min(1.0, index / schedule.warmup_ramp_steps)
        result = run.train_step(
            [
                lockstep.Datum.from_text_pair(problem.prompt, problem.answer)
                for problem in stream.take(schedule.warmup_batch)
            ],
            loss="cross_entropy",
            loss_agg_mode="token-mean",
            adamw=lockstep.AdamW(
                learning_rate=schedule.warmup_learning_rate * ramp,
                grad_clip_norm=schedule.grad_clip_norm,
            ),
        )
        yield WarmupStep(index, result.metrics.loss, result.metrics.tokens_per_second)


def reinforce(
    client: lockstep.Client, run: lockstep.Run, problems: Sequence[Problem], schedule: Schedule
) -> Iterator[RlStep]:
    """GRPO (Shao et al. 2024, section 4.1.1): rewards against the mean of their own group, one result a step.

    Data go to the server in the order of prompts and samples, whichever rollout ended first.
    """
    stream = ProblemStream(list(problems), lockstep.derive_seed(schedule.seed, "rl"))
    for index in range(1, schedule.rl_steps + 1):
        batch = stream.take(schedule.rl_prompts)
        groups = client.generate_many(
            [problem.prompt for problem in batch],
            num_samples=schedule.rl_samples_per_prompt,
            max_tokens=ANSWER_TOKENS_MAX,
            seed=lockstep.derive_seed(schedule.seed, "rl", index),
        )
        rewards = np.array(
            [
                [problem.reward(sample.tokens) for sample in group.samples]
                for problem, group in zip(batch, groups, strict=True)
            ]
        )
        result = run.train_step(
            grpo_data(groups, group_advantages(rewards)),
            loss="ppo",
            loss_agg_mode="token-mean",
            adamw=lockstep.AdamW(
                learning_rate=rl_learning_rate(schedule, index),
                grad_clip_norm=schedule.grad_clip_norm,
            ),
        )
        yield RlStep(
            index=index,
            reward=float(rewards.mean()),
            loss=result.metrics.loss,
            entropy=result.metrics.entropy,
            compared_tokens=result.metrics.compared_tokens,
            mismatched_tokens=result.metrics.mismatched_tokens,
            tokens_per_second=result.metrics.tokens_per_second,
        )


def rl_learning_rate(schedule: Schedule, index: int) -> float:
    """Of step `index`, from 1: up along a line over the ramp, then down to 0 after the last step."""
    ramp = min(1.0, index / schedule.rl_ramp_steps)
    return schedule.rl_learning_rate * ramp * (1 - (index - 1) / schedule.rl_steps)


def group_advantages(rewards: np.ndarray) -> np.ndarray:
    """[prompts, samples]: reward minus its group's mean, over its standard deviation; 0 where all rewards are equal."""
    centred = rewards - rewards.mean(axis=1, keepdims=True)
    deviation = rewards.std(axis=1, keepdims=True)
    return np.divide(centred, deviation, out=np.zeros_like(centred), where=deviation > 0)


def grpo_data(groups: Sequence[lockstep.Rollouts], advantages: np.ndarray) -> list[lockstep.Datum]:
    """One datum per sample, in order. Those of advantage 0 stay: they are compared bit by bit as well."""
    return [
        lockstep.Datum.from_rollout(group.prompt, sample, advantage)
        for group, row in zip(groups, advantages, strict=True)
        for sample, advantage in zip(group.samples, row, strict=True)
    ]


def accuracy(client: lockstep.Client, problems: Sequence[Problem], seed: int) -> float:
    """Share of problems that the policy answers exactly, one answer each, sampled at temperature 1."""
    rollouts = client.generate_many(
        [problem.prompt for problem in problems],
        max_tokens=ANSWER_TOKENS_MAX,
        seed=seed,
        # As many as a server runs at one time by default.
        concurrency=64,
    )
    rewards = [
        problem.reward(answer.samples[0].tokens)
        for problem, answer in zip(problems, rollouts, strict=True)
    ]
    return float(np.mean(rewards))
