"""Our side: a server of its own on a free port, measured through the Python client, as users see it.

Run with the project's .venv, in a process of its own; see worker.py.
"""

from __future__ import annotations

import argparse
import itertools
import time
from pathlib import Path
from typing import Any

import lockstep
import numpy as np

from model_bench import workload
from model_bench.arrivals import Arrival, steady_span
from model_bench.worker import serve

GREEDY = lockstep.SamplingParams(temperature=0.0)
ADAMW = lockstep.AdamW(
    learning_rate=workload.LEARNING_RATE,
    beta1=workload.BETAS[0],
    beta2=workload.BETAS[1],
    epsilon=workload.EPSILON,
)


class LockstepUnits:
    """The units of work, on one server."""

    def __init__(self, client: lockstep.Client, run: lockstep.Run) -> None:
        self._client = client
        self._run = run
        self._seeds = itertools.count(1)

    def describe(self) -> str:
        info = self._client.info()
        return f"lockstep {info.server_version}, {info.weights.numerics_id}, {info.instruction_set}"

    def greedy(self, prompt: list[int], tokens: int) -> list[int]:
        rollouts = self._client.generate(
            prompt, sampling=GREEDY, max_tokens=tokens, ignore_eos=True
        )
        return [int(token) for token in rollouts.samples[0].tokens]

    def decode(self, sequences: int, prompt_tokens: int, new_tokens: int) -> dict[str, float]:
        arrivals = []
        with self._client.stream(
            workload.token_ids(prompt_tokens, seed=1),
            sampling=GREEDY,
            num_samples=sequences,
            max_tokens=new_tokens,
            ignore_eos=True,
        ) as stream:
            for delta in stream:
                now = time.perf_counter()
                arrivals += [Arrival(delta.sample_index, now) for _ in delta.tokens]
        span = steady_span(arrivals, sequences)
        return {"tokens": span.tokens, "seconds": span.seconds}

    def prefill(self, tokens: int, repeats: int) -> dict[str, float]:
        """To the first token, from the call on."""
        prompt = workload.token_ids(tokens, seed=2)
        began = time.perf_counter()
        for _ in range(repeats):
            self._client.generate(prompt, sampling=GREEDY, max_tokens=1, ignore_eos=True)
        return {"tokens": tokens * repeats, "seconds": time.perf_counter() - began}

    def forward(self, sequences: int, tokens: int, repeats: int) -> dict[str, float]:
        """Log-probs (and entropies) of every position."""
        rows = workload.sequences_of_ids(sequences, tokens, seed=3)
        began = time.perf_counter()
        for _ in range(repeats):
            self._client.score(rows)
        return {"tokens": sequences * tokens * repeats, "seconds": time.perf_counter() - began}

    def train_step(self, sequences: int, tokens: int) -> dict[str, float]:
        """Forward, backward and AdamW on `tokens` targets a sequence."""
        data = [
            lockstep.Datum(np.array(ids[:-1], np.int32), np.array(ids[1:], np.int32))
            for ids in workload.sequences_of_ids(sequences, tokens + 1, seed=4)
        ]
        began = time.perf_counter()
        result = self._run.train_step(
            data, loss="cross_entropy", loss_agg_mode="token-mean", adamw=ADAMW
        )
        seconds = time.perf_counter() - began
        if result.optim_metrics.skipped:
            raise RuntimeError(f"{result.optim_metrics.non_finite_tensor}: gradient not finite")
        return {"tokens": sequences * tokens, "seconds": seconds, "loss": result.metrics.loss}

    def grpo(self, prompt_tokens: int, samples: int, new_tokens: int) -> dict[str, float]:
        """Samples of one prompt, then a step on them."""
        prompt = workload.token_ids(prompt_tokens, seed=5)
        began = time.perf_counter()
        rollouts = self._client.generate(
            prompt,
            num_samples=samples,
            max_tokens=new_tokens,
            seed=next(self._seeds),
            ignore_eos=True,
        )
        data = [
            lockstep.Datum.from_rollout(prompt, sample, advantage)
            for sample, advantage in zip(
                rollouts.samples, workload.advantages(samples), strict=True
            )
        ]
        result = self._run.train_step(data, loss="ppo", loss_agg_mode="token-mean", adamw=ADAMW)
        seconds = time.perf_counter() - began
        metrics = result.metrics
        if metrics.mismatched_tokens or metrics.compared_tokens != samples * new_tokens:
            raise RuntimeError(
                f"{metrics.mismatched_tokens} of {metrics.compared_tokens} log-probs differ"
            )
        return {"tokens": samples * new_tokens, "seconds": seconds}

    def all_units(self) -> dict[str, Any]:
        return {
            "describe": self.describe,
            "greedy": self.greedy,
            "decode": self.decode,
            "prefill": self.prefill,
            "forward": self.forward,
            "train_step": self.train_step,
            "grpo": self.grpo,
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--answers-fd", type=int, required=True)
    parser.add_argument("--server-binary", type=Path, required=True)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--profile", required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--server-log", type=Path, required=True)
    arguments = parser.parse_args()
    flags: dict[str, str | int | bool] = {
        "profile": arguments.profile,
        "threads": arguments.threads,
    }
    with (
        lockstep.LocalServer(
            arguments.server_binary, arguments.model, flags=flags, log_path=arguments.server_log
        ) as server,
        server.client() as client,
        client.run() as run,
    ):
        serve(LockstepUnits(client, run).all_units(), arguments.answers_fd)


if __name__ == "__main__":
    main()
