#!/usr/bin/env python3
"""Turns a GGUF file of a Llama into a Hugging Face directory.

Weights are dequantised to float32, which keeps what the GGUF file stands for exactly. The
tokenizer and its chat template come from the file's metadata. What is not known to be right (another
architecture, tokenizer or pre-tokenizer) is refused by name.

  tools/gguf_to_hf.py MODEL.gguf DIRECTORY
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from gguf import GGUFReader
from gguf.quants import dequantize
from safetensors.numpy import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

# Names of a layer's tensors: GGUF's and Hugging Face's.
LAYER_TENSORS = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
MODEL_TENSORS = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}

# The kinds of file that the names above and the rules below are right for.
KNOWN_KINDS = {
    "general.architecture": "llama",
    "tokenizer.ggml.model": "gpt2",
    "tokenizer.ggml.pre": "smollm",
}

# GGUF's token_type of tokens that stand for no text.
CONTROL_TOKEN = 3


class UnknownGgufError(Exception):
    """The file holds something this conversion does not know to be right."""


class Metadata:
    """The key-value section of a GGUF file, by name."""

    def __init__(self, reader: GGUFReader) -> None:
        self._reader = reader

    def get(self, key: str) -> object:
        """The value, or None where the file has none."""
        field = self._reader.get_field(key)
        return None if field is None else field.contents()

    def integer(self, key: str) -> int:
        value = self.get(key)
        if not isinstance(value, int):
            raise UnknownGgufError(f"{key} is {value!r}, not an integer")
        return value

    def decimal(self, key: str) -> float:
        """A float32 as the shortest decimal that means it: 1e-05, not 9.999999747378752e-06."""
        value = self.get(key)
        if not isinstance(value, float):
            raise UnknownGgufError(f"{key} is {value!r}, not a number")
        return float(str(np.float32(value)))

    def strings(self, key: str) -> list[str]:
        value = self.get(key)
        if not isinstance(value, list):
            raise UnknownGgufError(f"{key} is missing")
        return value

    def require(self, key: str, expected: str) -> None:
        if (value := self.get(key)) != expected:
            raise UnknownGgufError(f"{key} is {value!r}; known is {expected!r}")


def model_config(metadata: Metadata, *, tie_word_embeddings: bool) -> dict[str, object]:
    """config.json."""
    hidden_size = metadata.integer("llama.embedding_length")
    head_count = metadata.integer("llama.attention.head_count")
    head_dim = metadata.integer("llama.rope.dimension_count")
    if head_dim * head_count != hidden_size:
        raise UnknownGgufError(f"{head_count} heads of {head_dim} rotated positions each")
    if (scaling := metadata.get("llama.rope.scaling.type")) is not None:
        raise UnknownGgufError(f"llama.rope.scaling.type is {scaling!r}")
    return {
        "architectures": ["LlamaForCausalLM"],
        "attention_bias": False,
        "attention_dropout": 0.0,
        "bos_token_id": metadata.integer("tokenizer.ggml.bos_token_id"),
        "eos_token_id": metadata.integer("tokenizer.ggml.eos_token_id"),
        "pad_token_id": metadata.integer("tokenizer.ggml.padding_token_id"),
        "head_dim": head_dim,
        "hidden_act": "silu",
        "hidden_size": hidden_size,
        "intermediate_size": metadata.integer("llama.feed_forward_length"),
        "max_position_embeddings": metadata.integer("llama.context_length"),
        "mlp_bias": False,
        "model_type": "llama",
        "num_attention_heads": head_count,
        "num_hidden_layers": metadata.integer("llama.block_count"),
        "num_key_value_heads": metadata.integer("llama.attention.head_count_kv"),
        "rms_norm_eps": metadata.decimal("llama.attention.layer_norm_rms_epsilon"),
        "rope_scaling": None,
        "rope_theta": metadata.decimal("llama.rope.freq_base"),
        "tie_word_embeddings": tie_word_embeddings,
        "torch_dtype": "float32",
        "vocab_size": metadata.integer("llama.vocab_size"),
    }


def half_split_rows(weight: np.ndarray, head_count: int) -> np.ndarray:
    """Rows of q or k as Hugging Face's rotation wants them.

    GGUF stores the two rows that are rotated together beside each other; Hugging Face stores the
    first of all pairs of a head, then the second of all.
    """
    rows, columns = weight.shape
    pairs = weight.reshape(head_count, rows // head_count // 2, 2, columns)
    return np.ascontiguousarray(pairs.swapaxes(1, 2).reshape(rows, columns))


def named_weights(reader: GGUFReader, metadata: Metadata) -> Iterator[tuple[str, np.ndarray]]:
    """Every tensor as float32 under its Hugging Face name."""
    heads = {
        "attn_q": metadata.integer("llama.attention.head_count"),
        "attn_k": metadata.integer("llama.attention.head_count_kv"),
    }
    for tensor in reader.tensors:
        weight = dequantize(tensor.data, tensor.tensor_type).astype(np.float32, copy=False)
        if tensor.name in MODEL_TENSORS:
            yield MODEL_TENSORS[tensor.name], weight
            continue
        block, layer, kind, *suffix = tensor.name.split(".")
        if block != "blk" or kind not in LAYER_TENSORS or suffix != ["weight"]:
            raise UnknownGgufError(f"tensor {tensor.name}")
        if kind in heads:
            weight = half_split_rows(weight, heads[kind])
        yield f"model.layers.{layer}.{LAYER_TENSORS[kind]}.weight", weight


def build_tokenizer(metadata: Metadata) -> Tokenizer:
    """SmolLM's byte-level BPE: digits stand alone, then GPT-2's split into words."""
    tokens = metadata.strings("tokenizer.ggml.tokens")
    merges = [tuple(merge.split(" ")) for merge in metadata.strings("tokenizer.ggml.merges")]
    vocabulary = {token: index for index, token in enumerate(tokens)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    kinds = metadata.strings("tokenizer.ggml.token_type")
    tokenizer.add_special_tokens(
        [
            AddedToken(token, special=True, normalized=False)
            for token, kind in zip(tokens, kinds, strict=True)
            if kind == CONTROL_TOKEN
        ]
    )
    return tokenizer


def tokenizer_config(metadata: Metadata) -> dict[str, object]:
    """tokenizer_config.json: the special tokens by their text, and the chat template."""
    tokens = metadata.strings("tokenizer.ggml.tokens")

    def token(kind: str) -> str:
        return tokens[metadata.integer(f"tokenizer.ggml.{kind}_token_id")]

    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "add_prefix_space": False,
        "bos_token": token("bos"),
        "eos_token": token("eos"),
        "pad_token": token("padding"),
        "unk_token": token("unknown"),
        "chat_template": metadata.get("tokenizer.chat_template"),
        "clean_up_tokenization_spaces": False,
        "model_max_length": metadata.integer("llama.context_length"),
    }


def convert(gguf_path: Path, directory: Path) -> None:
    """Writes `directory`, which must not exist; it appears at the end, complete."""
    if directory.exists():
        raise FileExistsError(f"{directory} exists")
    reader = GGUFReader(gguf_path)
    metadata = Metadata(reader)
    for key, known in KNOWN_KINDS.items():
        metadata.require(key, known)
    weights = dict(named_weights(reader, metadata))
    config = model_config(metadata, tie_word_embeddings="lm_head.weight" not in weights)
    directory.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".gguf-", dir=directory.parent) as scratch:
        made = Path(scratch) / directory.name
        made.mkdir()
        write_json(made / "config.json", config)
        special_ids = {key: config[key] for key in ("bos_token_id", "eos_token_id", "pad_token_id")}
        write_json(made / "generation_config.json", special_ids)
        write_json(made / "tokenizer_config.json", tokenizer_config(metadata))
        build_tokenizer(metadata).save(str(made / "tokenizer.json"))
        save_file(weights, made / "model.safetensors", metadata={"format": "pt"})
        # save_file lets nobody else read it.
        (made / "model.safetensors").chmod(0o644)
        made.rename(directory)


def write_json(path: Path, value: dict[str, object]) -> None:
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: tools/gguf_to_hf.py MODEL.gguf DIRECTORY")
    convert(Path(sys.argv[1]), Path(sys.argv[2]))
