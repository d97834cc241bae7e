"""PyTorch's side, with transformers: eager, scaled-dot-product attention, AdamW in its fused form.

Three ways to train are here, because a fair peer is the one that does the same and a strong peer is the
one that does least: `--precision fp32`; `autocast`, products in bf16 over fp32 masters, as our profile
bf16 does it; and `bf16`, where weights, gradients and moments are bf16 too, which is less work and
another result. Run with the peers' environment, in a process of its own; see worker.py.
"""

from __future__ import annotations

import argparse
import itertools
import time
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import torch
import transformers
from torch.nn import functional
from transformers import AutoModelForCausalLM

from model_bench import workload
from model_bench.worker import serve


class TorchUnits:
    """The units of work, on one model."""

    def __init__(self, directory: Path, precision: str, threads: int) -> None:
        torch.set_num_threads(threads)
        # What ours does as well; denormal moments would slow AdamW down.
        torch.set_flush_denormal(True)
        dtype = torch.bfloat16 if precision == "bf16" else torch.float32
        self._precision = precision
        self._model = AutoModelForCausalLM.from_pretrained(
            directory, dtype=dtype, attn_implementation="sdpa", local_files_only=True
        )
        self._model.eval()  # a Llama has no dropout: training is the same function
        # No end-of-sequence token: every sample gets as many tokens as were asked for.
        self._model.generation_config.eos_token_id = None
        self._optimizer = torch.optim.AdamW(
            self._model.parameters(),
            lr=workload.LEARNING_RATE,
            betas=workload.BETAS,
            eps=workload.EPSILON,
            weight_decay=0.0,
            fused=True,
        )
        self._seeds = itertools.count(1)

    def describe(self) -> str:
        capability = torch.backends.cpu.get_cpu_capability()
        return (
            f"torch {torch.__version__}, transformers {transformers.__version__},"
            f" {self._precision}, {capability}"
        )

    def greedy(self, prompt: list[int], tokens: int) -> list[int]:
        ids = torch.tensor([prompt])
        with torch.inference_mode():
            answer = self._model.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                max_new_tokens=tokens,
                do_sample=False,
                pad_token_id=0,
            )
        return [int(token) for token in answer[0, len(prompt) :]]

    def forward(self, sequences: int, tokens: int, repeats: int) -> dict[str, float]:
        """Log-probs of every position; no entropies, which ours gives besides."""
        ids = torch.tensor(workload.sequences_of_ids(sequences, tokens, seed=3))
        began = time.perf_counter()
        for _ in range(repeats):
            with torch.inference_mode(), self._autocast():
                logits = self._model(ids, use_cache=False).logits[:, :-1]
                -functional.cross_entropy(
                    logits.float().flatten(0, 1), ids[:, 1:].flatten(), reduction="none"
                )
        return {"tokens": sequences * tokens * repeats, "seconds": time.perf_counter() - began}

    def train_step(self, sequences: int, tokens: int) -> dict[str, float]:
        rows = torch.tensor(workload.sequences_of_ids(sequences, tokens + 1, seed=4))
        began = time.perf_counter()
        with self._autocast():
            logits = self._model(rows[:, :-1], use_cache=False).logits
            loss = functional.cross_entropy(logits.float().flatten(0, 1), rows[:, 1:].flatten())
        self._step(loss)
        seconds = time.perf_counter() - began
        return {"tokens": sequences * tokens, "seconds": seconds, "loss": loss.item()}

    def grpo(self, prompt_tokens: int, samples: int, new_tokens: int) -> dict[str, float]:
        """Samples of one prompt, then a step on them, with one forward: on fresh samples the ratio is 1."""
        prompt = torch.tensor([workload.token_ids(prompt_tokens, seed=5)])
        advantages = torch.tensor(workload.advantages(samples))[:, None]
        torch.manual_seed(next(self._seeds))
        began = time.perf_counter()
        with torch.inference_mode(), self._autocast():
            rollouts = self._model.generate(
                prompt,
                attention_mask=torch.ones_like(prompt),
                num_return_sequences=samples,
                max_new_tokens=new_tokens,
                do_sample=True,
                temperature=1.0,
                top_k=0,
                top_p=1.0,
                pad_token_id=0,
            )
        rollouts = rollouts.clone()  # an ordinary tensor again, which autograd takes
        sampled = rollouts[:, prompt_tokens:]
        with self._autocast():
            # Logits of the positions that sampled, and no others.
            logits = self._model(
                rollouts[:, :-1], use_cache=False, logits_to_keep=new_tokens
            ).logits
            logprobs = -functional.cross_entropy(
                logits.float().flatten(0, 1), sampled.flatten(), reduction="none"
            ).view(samples, new_tokens)
        ratio = torch.exp(logprobs - logprobs.detach())
        clipped = ratio.clamp(0.8, 1.2)
        self._step(-torch.minimum(ratio * advantages, clipped * advantages).mean())
        seconds = time.perf_counter() - began
        if sampled.shape != (samples, new_tokens):
            raise RuntimeError(f"generate returned {tuple(sampled.shape)}")
        return {"tokens": samples * new_tokens, "seconds": seconds}

    def all_units(self) -> dict[str, Any]:
        return {
            "describe": self.describe,
            "greedy": self.greedy,
            "forward": self.forward,
            "train_step": self.train_step,
            "grpo": self.grpo,
        }

    def _step(self, loss: torch.Tensor) -> None:
        loss.backward()
        self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)

    def _autocast(self) -> AbstractContextManager[object]:
        if self._precision == "autocast":
            return torch.autocast("cpu", dtype=torch.bfloat16)
        return nullcontext()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--answers-fd", type=int, required=True)
    parser.add_argument("--model", type=Path, required=True, help="Hugging Face directory")
    parser.add_argument("--precision", choices=["fp32", "autocast", "bf16"], required=True)
    parser.add_argument("--threads", type=int, required=True)
    arguments = parser.parse_args()
    units = TorchUnits(arguments.model, arguments.precision, arguments.threads)
    serve(units.all_units(), arguments.answers_fd)


if __name__ == "__main__":
    main()
