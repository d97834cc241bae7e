#!/usr/bin/env python3
"""Turns a Hugging Face directory of a Llama into a bf16 GGUF file, so that llama.cpp can run the same weights.

The reverse of gguf_to_hf.py: matrices are rounded to bf16 (nearest, ties to even) and norm weights
stay float32, as llama.cpp's own converter writes them. The tokenizer comes along as far as llama.cpp
wants one to load a model. What is not known to be right (another architecture or tokenizer, a
scaled RoPE) is refused by name.

  tools/hf_to_gguf.py DIRECTORY MODEL.gguf
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from gguf import GGMLQuantizationType, GGUFWriter, LlamaFileType
from gguf.quants import quantize
from gguf_to_hf import CONTROL_TOKEN, KNOWN_KINDS, LAYER_TENSORS, MODEL_TENSORS
from safetensors.numpy import load_file

# GGUF's token_type of tokens that stand for text.
NORMAL_TOKEN = 1

# Hugging Face's names to GGUF's; the other way round than in gguf_to_hf.
GGUF_MODEL_TENSORS = {hf: name for name, hf in MODEL_TENSORS.items()}
GGUF_LAYER_TENSORS = {hf: name for name, hf in LAYER_TENSORS.items()}
_LAYER_NAME = re.compile(r"model\.layers\.(\d+)\.(.+)\.weight")

# The values in config.json and tokenizer.json that what is written below is right for.
KNOWN_CONFIG = {"model_type": "llama", "hidden_act": "silu", "rope_scaling": None}


class UnknownModelError(Exception):
    """The directory holds something this conversion does not know to be right."""


def gguf_name(hf_name: str) -> str:
    """The GGUF name of a tensor; UnknownModelError for one that a Llama does not have."""
    if (name := GGUF_MODEL_TENSORS.get(hf_name)) is not None:
        return name
    match = _LAYER_NAME.fullmatch(hf_name)
    if match is None or match[2] not in GGUF_LAYER_TENSORS:
        raise UnknownModelError(f"tensor {hf_name}")
    return f"blk.{match[1]}.{GGUF_LAYER_TENSORS[match[2]]}.weight"


def interleaved_rows(weight: np.ndarray, head_count: int) -> np.ndarray:
    """Rows of q or k as GGUF wants them: the two rows that are rotated together beside each other.

    Undoes gguf_to_hf.half_split_rows.
    """
    rows, columns = weight.shape
    halves = weight.reshape(head_count, 2, rows // head_count // 2, columns)
    return np.ascontiguousarray(halves.swapaxes(1, 2).reshape(rows, columns))


def named_weights(
    weights: Mapping[str, np.ndarray], config: Mapping[str, Any]
) -> Iterator[tuple[str, np.ndarray]]:
    """Every tensor as float32 under its GGUF name."""
    heads = {"q_proj": config["num_attention_heads"], "k_proj": config["num_key_value_heads"]}
    for hf_name, weight in weights.items():
        name = gguf_name(hf_name)
        for projection, head_count in heads.items():
            if f".{projection}." in hf_name:
                weight = interleaved_rows(weight, head_count)
        yield name, weight.astype(np.float32, copy=False)


def add_config(writer: GGUFWriter, config: Mapping[str, Any]) -> None:
    """config.json as GGUF's metadata."""
    for key, known in KNOWN_CONFIG.items():
        if config.get(key) != known:
            raise UnknownModelError(f"{key} is {config.get(key)!r}; known is {known!r}")
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_rope_dimension_count(config["head_dim"])
    writer.add_rope_freq_base(config["rope_theta"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_vocab_size(config["vocab_size"])
    writer.add_file_type(LlamaFileType.MOSTLY_BF16)


def add_tokenizer(
    writer: GGUFWriter, tokenizer: Mapping[str, Any], config: Mapping[str, Any]
) -> None:
    """tokenizer.json, which is the one that gguf_to_hf.build_tokenizer makes, as GGUF's metadata."""
    splits = [step["type"] for step in tokenizer["pre_tokenizer"].get("pretokenizers", [])]
    if tokenizer["model"]["type"] != "BPE" or splits != ["Digits", "ByteLevel"]:
        raise UnknownModelError("tokenizer.json is not SmolLM's")
    ids: dict[str, int] = tokenizer["model"]["vocab"]
    tokens = sorted(ids, key=lambda token: ids[token])
    if [ids[token] for token in tokens] != list(range(config["vocab_size"])):
        raise UnknownModelError(f"tokenizer.json does not name {config['vocab_size']} tokens")
    special = {added["id"] for added in tokenizer["added_tokens"] if added["special"]}
    merges = tokenizer["model"]["merges"]
    writer.add_tokenizer_model(KNOWN_KINDS["tokenizer.ggml.model"])
    writer.add_tokenizer_pre(KNOWN_KINDS["tokenizer.ggml.pre"])
    writer.add_token_list(tokens)
    writer.add_token_types(
        [CONTROL_TOKEN if i in special else NORMAL_TOKEN for i in range(len(tokens))]
    )
    writer.add_token_merges([m if isinstance(m, str) else " ".join(m) for m in merges])
    writer.add_bos_token_id(config["bos_token_id"])
    writer.add_eos_token_id(config["eos_token_id"])


def convert(directory: Path, gguf_path: Path) -> None:
    """Writes `gguf_path`, which appears at the end, complete; an older one is replaced."""
    config = json.loads((directory / "config.json").read_text())
    tokenizer = json.loads((directory / "tokenizer.json").read_text())
    weights = load_file(directory / "model.safetensors")
    gguf_path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".gguf-", dir=gguf_path.parent) as scratch:
        made = Path(scratch) / gguf_path.name
        writer = GGUFWriter(made, KNOWN_KINDS["general.architecture"])
        add_config(writer, config)
        add_tokenizer(writer, tokenizer, config)
        for name, weight in named_weights(weights, config):
            if weight.ndim == 1:
                writer.add_tensor(name, weight)
            else:
                kind = GGMLQuantizationType.BF16
                writer.add_tensor(name, quantize(weight, kind), raw_dtype=kind)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        made.rename(gguf_path)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: tools/hf_to_gguf.py DIRECTORY MODEL.gguf")
    convert(Path(sys.argv[1]), Path(sys.argv[2]))
