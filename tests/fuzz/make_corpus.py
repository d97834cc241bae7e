#!/usr/bin/env python3
"""Writes the seeds of the fuzz targets: small well-formed inputs, and each with one thing wrong.

.venv/bin/python tests/fuzz/make_corpus.py
"""

from __future__ import annotations

import json
import struct
from pathlib import Path

from lockstep.wire import generation_pb2, lockstep_pb2, training_pb2

CORPUS = Path(__file__).resolve().parent / "corpus"


def write(target: str, name: str, contents: bytes) -> None:
    (CORPUS / target).mkdir(parents=True, exist_ok=True)
    (CORPUS / target / name).write_bytes(contents)


def safetensors(header: object, data: bytes) -> bytes:
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def make_safetensors() -> None:
    entry = {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]}
    half = {"dtype": "BF16", "shape": [3], "data_offsets": [16, 22]}
    whole = {"__metadata__": {"format": "pt"}, "a": entry, "b": half}
    write("safetensors", "two_tensors", safetensors(whole, bytes(22)))
    write("safetensors", "truncated", safetensors(whole, bytes(21)))
    write("safetensors", "empty_tensor", safetensors({"a": entry | {"shape": [0]}}, b""))
    write("safetensors", "overlap", safetensors({"a": entry, "b": entry}, bytes(16)))
    write("safetensors", "huge_shape", safetensors({"a": entry | {"shape": [2**62, 4]}}, bytes(16)))
    write(
        "safetensors", "negative", safetensors({"a": entry | {"data_offsets": [-8, 8]}}, bytes(8))
    )
    write("safetensors", "header_past_the_end", struct.pack("<Q", 2**40) + b"{}")
    write("safetensors", "not_json", safetensors(whole, b"")[:20])
    write("safetensors", "nothing", b"")


def make_model_config() -> None:
    llama = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": 100,
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 128,
        "rope_theta": 50000.0,
        "eos_token_id": [2, 3],
    }
    scaling = {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 64,
    }
    qwen3 = llama | {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "head_dim": 16}
    configs = {
        "llama": llama,
        "llama3_rope": llama | {"rope_scaling": scaling},
        "qwen3": qwen3 | {"rope_parameters": {"rope_type": "default", "rope_theta": 1e6}},
        "window": llama | {"sliding_window": 64},
        "huge": llama | {"vocab_size": 2**63 - 1, "hidden_size": 2**40},
        "wrong_types": llama | {"vocab_size": "100", "eos_token_id": {"a": []}},
    }
    for name, config in configs.items():
        write("model_config", name, json.dumps(config).encode())
    both = json.dumps(llama).encode() + b"\0" + json.dumps({"eos_token_id": [4, 5]}).encode()
    write("model_config", "with_generation_config", both)
    write("model_config", "deep", b"[" * 4000)


def make_request() -> None:
    generate = generation_pb2.GenerateRequest(prompt_token_ids=[1, 2, 3], max_tokens=4, seed=7)
    generate.sampling_params.temperature = 0.7
    score = generation_pb2.ScoreRequest()
    score.sequences.add(token_ids=[5, 6, 7])
    step = training_pb2.TrainStepRequest()
    step.call.run_id, step.call.seq_id = "run", 1
    datum = step.data.add()
    datum.model_input.extend([1, 2, 3])
    datum.target_tokens.extend([2, 3, 4])
    datum.mask.extend([0, 1, 1])
    datum.logprobs.extend([float("nan"), -1.0, -2.0])
    datum.advantages.extend([0.0, 1.0, 1.0])
    step.adamw.learning_rate = 1e-3
    gradients = training_pb2.ForwardBackwardRequest(call=step.call, data=step.data)
    optim = training_pb2.OptimStepRequest(call=step.call, adamw=step.adamw)
    parity = lockstep_pb2.CheckParityRequest(num_prompts=2, num_samples=2, max_tokens=3)
    for kind, message in enumerate((generate, score, gradients, optim, step, parity)):
        name = type(message).__name__
        write("request", name, bytes([kind]) + message.SerializeToString())
        write("request", f"{name}_cut", bytes([kind]) + message.SerializeToString()[:-1])


def main() -> None:
    make_safetensors()
    make_model_config()
    make_request()


if __name__ == "__main__":
    main()
