#!/usr/bin/env python3
"""Chats with SmolLM2-135M-Instruct, rewards its own answers, and takes a training step on them.

.venv/bin/python client/python/examples/smollm2_chat.py --model "$(tools/get_smollm2)"
"""

from __future__ import annotations

import argparse
from pathlib import Path

import lockstep
import numpy as np

SERVER_BINARY = Path(__file__).resolve().parents[3] / "bazel-bin" / "server" / "lockstep_server"
QUESTION = "Write one sentence about the sea."


def stream_answer(client: lockstep.Client, codec: lockstep.TextCodec, max_tokens: int) -> None:
    """Prints a greedy answer as its tokens arrive."""
    prompt = codec.encode_chat([{"role": "user", "content": QUESTION}])
    tokens: list[int] = []
    shown = ""
    greedy = lockstep.SamplingParams(temperature=0.0)
    with client.stream(prompt, sampling=greedy, max_tokens=max_tokens) as stream:
        for delta in stream:
            tokens += delta.tokens.tolist()
            text = codec.decode(tokens)
            # The bytes of one character may be spread over tokens: wait until it is whole.
            if not text.endswith("\N{REPLACEMENT CHARACTER}"):
                print(text[len(shown) :], end="", flush=True)
                shown = text
    print()


def train_on_own_answers(
    client: lockstep.Client, run: lockstep.Run, codec: lockstep.TextCodec, max_tokens: int
) -> lockstep.TrainStepResult:
    """One GRPO step: several answers to one question, the shorter ones rewarded."""
    prompt = codec.encode_chat([{"role": "user", "content": QUESTION}])
    rollouts = client.generate(prompt, num_samples=4, max_tokens=max_tokens, seed=1)
    for sample in rollouts.samples:
        print(f"  {len(sample.tokens):3} tokens: {codec.decode(sample.tokens)!r}")
    rewards = -np.array([len(sample.tokens) for sample in rollouts.samples], np.float64)
    advantages = rewards - rewards.mean()
    advantages /= max(rewards.std(), 1.0)
    return run.train_step(
        [
            lockstep.Datum.from_rollout(prompt, sample, advantage)
            for sample, advantage in zip(rollouts.samples, advantages, strict=True)
        ],
        loss="ppo",
        loss_agg_mode="token-mean",
        adamw=lockstep.AdamW(learning_rate=1e-6, grad_clip_norm=1.0),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, required=True, help="Hugging Face directory")
    parser.add_argument("--server-binary", type=Path, default=SERVER_BINARY)
    parser.add_argument("--max-tokens", type=int, default=48, help="of each answer")
    parser.add_argument("--stages", type=int, default=1, help="pipeline stages")
    arguments = parser.parse_args()

    codec = lockstep.TextCodec.from_directory(arguments.model)
    with (
        lockstep.LocalServer(
            arguments.server_binary, arguments.model, flags={"stages": arguments.stages}
        ) as server,
        server.client() as client,
        client.run() as run,
    ):
        print(f"> {QUESTION}")
        stream_answer(client, codec, arguments.max_tokens)
        print("sampled answers, and a training step on them:")
        step = train_on_own_answers(client, run, codec, arguments.max_tokens)
        print(
            f"mismatched tokens: {step.metrics.mismatched_tokens}"
            f" of {step.metrics.compared_tokens} compared,"
            f" gradient norm {step.optim_metrics.grad_norm:.3f},"
            f" weights version {step.weights.weight_version}"
        )
        print("the same question to the new weights:")
        stream_answer(client, codec, arguments.max_tokens)


if __name__ == "__main__":
    main()
