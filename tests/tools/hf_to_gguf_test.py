"""Goal: the GGUF file holds the directory's model. Method: a tiny directory written here goes there and, by gguf_to_hf's
own rules, back; what is unknown must be refused by name.
"""

import json
from pathlib import Path

import gguf
import gguf_to_hf
import hf_to_gguf
import numpy as np
import pytest
from safetensors.numpy import save_file

HIDDEN, HEADS, KV_HEADS, HEAD_DIM, MLP = 32, 4, 2, 8, 64
TOKENS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "a", "t", "h", "e", "Ġ", "Ġt", "he"]


def bf16_values(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Random float32 whose low 16 bits are 0: rounding to bf16 keeps them."""
    bits = rng.standard_normal(shape, np.float32).view(np.uint32) & np.uint32(0xFFFF0000)
    return bits.view(np.float32)


def write_model(directory: Path, **changed: object) -> dict[str, np.ndarray]:
    """Writes a model with one layer and returns its weights; `changed` replaces fields of config.json."""
    rng = np.random.default_rng(0)
    shapes = {
        "model.embed_tokens.weight": (len(TOKENS), HIDDEN),
        "model.norm.weight": (HIDDEN,),
        "model.layers.0.input_layernorm.weight": (HIDDEN,),
        "model.layers.0.post_attention_layernorm.weight": (HIDDEN,),
        "model.layers.0.self_attn.q_proj.weight": (HEADS * HEAD_DIM, HIDDEN),
        "model.layers.0.self_attn.k_proj.weight": (KV_HEADS * HEAD_DIM, HIDDEN),
        "model.layers.0.self_attn.v_proj.weight": (KV_HEADS * HEAD_DIM, HIDDEN),
        "model.layers.0.self_attn.o_proj.weight": (HIDDEN, HEADS * HEAD_DIM),
        "model.layers.0.mlp.gate_proj.weight": (MLP, HIDDEN),
        "model.layers.0.mlp.up_proj.weight": (MLP, HIDDEN),
        "model.layers.0.mlp.down_proj.weight": (HIDDEN, MLP),
    }
    weights = {name: bf16_values(rng, shape) for name, shape in shapes.items()}
    config = {
        "model_type": "llama",
        "hidden_act": "silu",
        "hidden_size": HIDDEN,
        "intermediate_size": MLP,
        "num_hidden_layers": 1,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "head_dim": HEAD_DIM,
        "max_position_embeddings": 128,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "vocab_size": len(TOKENS),
        "bos_token_id": 1,
        "eos_token_id": 2,
    }
    steps = [{"type": "Digits"}, {"type": "ByteLevel"}]
    tokenizer = {
        "model": {
            "type": "BPE",
            "vocab": {token: i for i, token in enumerate(TOKENS)},
            "merges": [["Ġ", "t"], ["h", "e"]],
        },
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": steps},
        "added_tokens": [{"id": i, "special": True} for i in range(3)],
    }
    directory.mkdir()
    save_file(weights, directory / "model.safetensors")
    (directory / "config.json").write_text(json.dumps(config | changed))
    (directory / "tokenizer.json").write_text(json.dumps(tokenizer))
    return weights


def test_weights_go_there_and_back(tmp_path: Path) -> None:
    expected = write_model(tmp_path / "hf")
    hf_to_gguf.convert(tmp_path / "hf", tmp_path / "model.gguf")
    reader = gguf.GGUFReader(tmp_path / "model.gguf")

    read = dict(gguf_to_hf.named_weights(reader, gguf_to_hf.Metadata(reader)))
    assert read.keys() == expected.keys()
    for name, weight in expected.items():
        np.testing.assert_array_equal(read[name], weight, err_msg=name)


def test_matrices_are_bf16_and_norms_float32(tmp_path: Path) -> None:
    write_model(tmp_path / "hf")
    hf_to_gguf.convert(tmp_path / "hf", tmp_path / "model.gguf")

    for tensor in gguf.GGUFReader(tmp_path / "model.gguf").tensors:
        is_norm = "norm" in tensor.name
        assert tensor.tensor_type.name == ("F32" if is_norm else "BF16"), tensor.name


def test_metadata(tmp_path: Path) -> None:
    write_model(tmp_path / "hf")
    hf_to_gguf.convert(tmp_path / "hf", tmp_path / "model.gguf")
    metadata = gguf_to_hf.Metadata(gguf.GGUFReader(tmp_path / "model.gguf"))

    assert metadata.get("general.architecture") == "llama"
    assert metadata.integer("llama.attention.head_count_kv") == KV_HEADS
    assert metadata.decimal("llama.attention.layer_norm_rms_epsilon") == 1e-5
    assert metadata.decimal("llama.rope.freq_base") == 10000.0
    assert metadata.strings("tokenizer.ggml.tokens") == TOKENS
    assert metadata.strings("tokenizer.ggml.merges") == ["Ġ t", "h e"]
    assert metadata.get("tokenizer.ggml.token_type") == [3, 3, 3, *[1] * (len(TOKENS) - 3)]
    assert metadata.integer("tokenizer.ggml.eos_token_id") == 2


def test_rows_of_q_are_paired_as_llama_cpp_pairs_them() -> None:
    # Two heads of four rows: rows 0 and 2 of a head are rotated together, and so are 1 and 3.
    rows = np.arange(8, dtype=np.float32)[:, None]
    paired = hf_to_gguf.interleaved_rows(rows, head_count=2)
    assert paired[:, 0].tolist() == [0, 2, 1, 3, 4, 6, 5, 7]


@pytest.mark.parametrize(
    ("hf_name", "name"),
    [
        ("model.embed_tokens.weight", "token_embd.weight"),
        ("lm_head.weight", "output.weight"),
        ("model.layers.12.self_attn.o_proj.weight", "blk.12.attn_output.weight"),
        ("model.layers.0.post_attention_layernorm.weight", "blk.0.ffn_norm.weight"),
    ],
)
def test_names(hf_name: str, name: str) -> None:
    assert hf_to_gguf.gguf_name(hf_name) == name


@pytest.mark.parametrize(
    "hf_name", ["model.layers.0.self_attn.q_proj.bias", "model.layers.x.mlp.up_proj.weight", "w"]
)
def test_a_tensor_that_a_llama_does_not_have_is_refused(hf_name: str) -> None:
    with pytest.raises(hf_to_gguf.UnknownModelError, match=hf_name):
        hf_to_gguf.gguf_name(hf_name)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"model_type": "qwen2"}, "model_type is 'qwen2'"),
        ({"rope_scaling": {"rope_type": "llama3"}}, "rope_scaling is"),
        ({"vocab_size": len(TOKENS) + 1}, "does not name 11 tokens"),
    ],
)
def test_the_unknown_is_refused_and_leaves_nothing(
    tmp_path: Path, changed: dict[str, object], message: str
) -> None:
    write_model(tmp_path / "hf", **changed)
    with pytest.raises(hf_to_gguf.UnknownModelError, match=message):
        hf_to_gguf.convert(tmp_path / "hf", tmp_path / "model.gguf")
    assert [path.name for path in tmp_path.iterdir()] == ["hf"]
