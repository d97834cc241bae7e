"""llama.cpp's side, through llama-cpp-python's low-level bindings: llama_decode on batches, greedy picks.

Logits are computed only where a token is picked, and the pick is numpy's argmax, which is faster than
llama.cpp's own sampler. Run with the peers' environment, in a process of its own; see worker.py.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import llama_cpp
import numpy as np

from model_bench import workload
from model_bench.worker import serve

# Tokens of one llama_decode at most, and of one of its graphs: a prompt of the bench is one batch.
BATCH_TOKENS_MAX = 512


class LlamaContext:
    """A context for `sequences` sequences of at most `positions` each, and the batch it is fed with.

    Every sequence has its KV to itself; both live as long as the process.
    """

    def __init__(self, model: Any, sequences: int, positions: int, threads: int) -> None:  # noqa: ANN401
        parameters = llama_cpp.llama_context_default_params()
        parameters.n_ctx = sequences * positions
        parameters.n_batch = BATCH_TOKENS_MAX
        parameters.n_ubatch = BATCH_TOKENS_MAX
        parameters.n_seq_max = sequences
        parameters.n_threads = threads
        parameters.n_threads_batch = threads
        self._context = llama_cpp.llama_init_from_model(model, parameters)
        if not self._context:
            raise RuntimeError("llama_init_from_model failed")
        self._batch = llama_cpp.llama_batch_init(BATCH_TOKENS_MAX, 0, 1)
        vocabulary = llama_cpp.llama_model_get_vocab(model)
        self._vocabulary_size = llama_cpp.llama_vocab_n_tokens(vocabulary)

    def clear(self) -> None:
        """Forgets all sequences."""
        llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(self._context), False)

    def prefill(self, sequence: int, prompt: Sequence[int]) -> int:
        """Reads a prompt in one batch and picks the token after it."""
        batch = self._batch
        batch.n_tokens = len(prompt)
        for index, token in enumerate(prompt):
            self._put(index, token, position=index, sequence=sequence)
            batch.logits[index] = int(index == len(prompt) - 1)
        return self._decode(picks=1)[0]

    def step(self, tokens: Sequence[int], position: int) -> list[int]:
        """One token of every sequence, all at the same position; picks the next ones."""
        batch = self._batch
        batch.n_tokens = len(tokens)
        for sequence, token in enumerate(tokens):
            self._put(sequence, token, position=position, sequence=sequence)
            batch.logits[sequence] = 1
        return self._decode(picks=len(tokens))

    def _put(self, index: int, token: int, *, position: int, sequence: int) -> None:
        batch = self._batch
        batch.token[index] = token
        batch.pos[index] = position
        batch.n_seq_id[index] = 1
        batch.seq_id[index][0] = sequence

    def _decode(self, picks: int) -> list[int]:
        if (status := llama_cpp.llama_decode(self._context, self._batch)) != 0:
            raise RuntimeError(f"llama_decode returned {status}")
        # Waits for the computation; the rows are those whose logits were asked for, in order.
        pointer = llama_cpp.llama_get_logits(self._context)
        logits = np.ctypeslib.as_array(pointer, shape=(picks, self._vocabulary_size))
        return [int(token) for token in logits.argmax(axis=1)]


class LlamaUnits:
    """The units of work, on one model."""

    def __init__(self, gguf_path: Path, threads: int) -> None:
        llama_cpp.llama_backend_init()
        parameters = llama_cpp.llama_model_default_params()
        self._model = llama_cpp.llama_model_load_from_file(str(gguf_path).encode(), parameters)
        if not self._model:
            raise RuntimeError(f"llama.cpp does not load {gguf_path}")
        self._threads = threads
        self._contexts: dict[int, LlamaContext] = {}

    def describe(self) -> str:
        system = llama_cpp.llama_print_system_info().decode().strip()
        return f"llama-cpp-python {version('llama-cpp-python')} ({system})"

    def greedy(self, prompt: list[int], tokens: int) -> list[int]:
        context = self._context(1)
        picked = [context.prefill(0, prompt)]
        while len(picked) < tokens:
            picked += context.step(picked[-1:], len(prompt) + len(picked) - 1)
        return picked

    def decode(self, sequences: int, prompt_tokens: int, new_tokens: int) -> dict[str, float]:
        """As ours: the first token of each sequence comes before the clock starts."""
        context = self._context(sequences)
        prompt = workload.token_ids(prompt_tokens, seed=1)
        tokens = [context.prefill(sequence, prompt) for sequence in range(sequences)]
        began = time.perf_counter()
        for step in range(new_tokens - 1):
            tokens = context.step(tokens, prompt_tokens + step)
        return {
            "tokens": sequences * (new_tokens - 1),
            "seconds": time.perf_counter() - began,
        }

    def prefill(self, tokens: int, repeats: int) -> dict[str, float]:
        prompt = workload.token_ids(tokens, seed=2)
        began = time.perf_counter()
        for _ in range(repeats):
            self._context(1).prefill(0, prompt)
        return {"tokens": tokens * repeats, "seconds": time.perf_counter() - began}

    def all_units(self) -> dict[str, Any]:
        return {
            "describe": self.describe,
            "greedy": self.greedy,
            "decode": self.decode,
            "prefill": self.prefill,
        }

    def _context(self, sequences: int) -> LlamaContext:
        """An empty context for that many sequences; made on first use."""
        if sequences not in self._contexts:
            self._contexts[sequences] = LlamaContext(
                self._model, sequences, positions=512, threads=self._threads
            )
        context = self._contexts[sequences]
        context.clear()
        return context


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--answers-fd", type=int, required=True)
    parser.add_argument("--model", type=Path, required=True, help="GGUF file")
    parser.add_argument("--threads", type=int, required=True)
    arguments = parser.parse_args()
    serve(LlamaUnits(arguments.model, arguments.threads).all_units(), arguments.answers_fd)


if __name__ == "__main__":
    main()
