"""How fast the machine could do a piece of work at most: the floating-point peak and the memory's speed.

Work is counted as the field does: 2 operations a weight and token forward, 6 in a training step
(Kaplan et al. 2020, section 2.1), attention's own products left out; a step of decoding reads all
weights and the KV of every sequence once.
"""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

BYTES_PER_VALUE = {"bf16": 2, "fp32": 4}


@dataclass(frozen=True)
class MachinePeak:
    """What tests/bench/print_machine_peak measured just now."""

    fma_gflops: float  # of the widest instruction set
    bf16_dot_gflops: float | None  # None: the CPU has no such instruction
    read_gigabytes_per_second: float

    @classmethod
    def from_json(cls, measured: dict[str, Any]) -> MachinePeak:
        return cls(
            fma_gflops=max(measured["fma_gflops"].values()),
            bf16_dot_gflops=measured.get("bf16_dot_gflops"),
            read_gigabytes_per_second=measured["read_gigabytes_per_second"],
        )

    def gflops(self, profile: str) -> float:
        """Of the products of a profile: without bf16 instructions they are fp32's."""
        if profile == "bf16" and self.bf16_dot_gflops is not None:
            return max(self.bf16_dot_gflops, self.fma_gflops)
        return self.fma_gflops


@dataclass(frozen=True)
class ModelShape:
    """Counts of a Llama with tied embeddings."""

    parameters: int
    embedding_parameters: int  # also the head's
    kv_values_per_position: int  # K and V of all layers

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> ModelShape:
        """Of a Hugging Face config.json."""
        hidden = config["hidden_size"]
        queries = config["num_attention_heads"] * config["head_dim"]
        keys = config["num_key_value_heads"] * config["head_dim"]
        attention = hidden * (queries + 2 * keys) + queries * hidden
        mlp = 3 * hidden * config["intermediate_size"]
        layers = config["num_hidden_layers"]
        embedding = config["vocab_size"] * hidden
        return cls(
            parameters=embedding + layers * (attention + mlp + 2 * hidden) + hidden,
            embedding_parameters=embedding,
            kv_values_per_position=2 * layers * keys,
        )


@dataclass(frozen=True)
class Work:
    """A piece of work that no program does without."""

    tokens: int
    flops: float
    bytes_read: float = 0.0

    def tokens_per_second_max(self, peak: MachinePeak, profile: str) -> float:
        """By the roofline: the slower of arithmetic and reading bounds it."""
        arithmetic_s = self.flops / (peak.gflops(profile) * 1e9)
        reading_s = self.bytes_read / (peak.read_gigabytes_per_second * 1e9)
        return self.tokens / max(arithmetic_s, reading_s)


def decode_work(shape: ModelShape, profile: str, *, sequences: int, context: float) -> Work:
    """One step: a token of each sequence, `context` positions behind each."""
    kv_values = sequences * context * shape.kv_values_per_position
    return Work(
        tokens=sequences,
        flops=2.0 * shape.parameters * sequences,
        bytes_read=(shape.parameters + kv_values) * BYTES_PER_VALUE[profile],
    )


def prefill_work(shape: ModelShape, profile: str, *, tokens: int) -> Work:
    """A prompt, of which the last position alone goes through the head."""
    layers = shape.parameters - shape.embedding_parameters
    return Work(
        tokens=tokens,
        flops=2.0 * (layers * tokens + shape.embedding_parameters),
        bytes_read=shape.parameters * BYTES_PER_VALUE[profile],
    )


def forward_work(shape: ModelShape, *, tokens: int) -> Work:
    """Logits of every position."""
    return Work(tokens=tokens, flops=2.0 * shape.parameters * tokens)


def train_work(shape: ModelShape, *, tokens: int) -> Work:
    """Forward and backward; the optimizer's traffic is left out."""
    return Work(tokens=tokens, flops=6.0 * shape.parameters * tokens)


def measure_machine_peak(binary: Path, threads: int, read_bytes: int) -> MachinePeak:
    """Takes well under a second; reads a buffer of `read_bytes`, which should be as large as the weights."""
    command = [str(binary), str(threads), str(read_bytes)]
    answer = subprocess.run(command, check=True, capture_output=True, text=True)
    return MachinePeak.from_json(json.loads(answer.stdout))
