"""Goal: a converted directory holds the same model. Method: a tiny GGUF file written here, the way llama.cpp's converter
writes one, with rows of q and k reordered by that converter's rule; and what is unknown must be refused by name.
"""

import json
from pathlib import Path

import gguf
import gguf_to_hf
import lockstep
import numpy as np
import pytest
from safetensors.numpy import load_file

HIDDEN, HEADS, KV_HEADS, MLP = 32, 4, 2, 64
HEAD_DIM = HIDDEN // HEADS
TEMPLATE = "{% for m in messages %}{{ '<|im_start|>' + m['content'] + '<|im_end|>' }}{% endfor %}"


def make_vocabulary() -> list[str]:
    alphabet = sorted('!"#abcdefghijklmnopqrstuvwxyz0123456789ĠĊ')
    return ["<|endoftext|>", "<|im_start|>", "<|im_end|>", *alphabet, "Ġt", "he", "12"]


def interleaved_rows(weight: np.ndarray, heads: int) -> np.ndarray:
    """The converter's rule, row by row: GGUF's row 2i of a head is row i, its row 2i + 1 row i + half."""
    result = np.empty_like(weight)
    half = len(weight) // heads // 2
    for head in range(heads):
        base = head * 2 * half
        for i in range(half):
            result[base + 2 * i] = weight[base + i]
            result[base + 2 * i + 1] = weight[base + half + i]
    return result


def make_weights() -> dict[str, np.ndarray]:
    """By their Hugging Face names."""
    rng = np.random.default_rng(0)
    shapes = {
        "model.embed_tokens.weight": (len(make_vocabulary()), HIDDEN),
        "model.norm.weight": (HIDDEN,),
        "model.layers.0.input_layernorm.weight": (HIDDEN,),
        "model.layers.0.post_attention_layernorm.weight": (HIDDEN,),
        "model.layers.0.self_attn.q_proj.weight": (HEADS * HEAD_DIM, HIDDEN),
        "model.layers.0.self_attn.k_proj.weight": (KV_HEADS * HEAD_DIM, HIDDEN),
        "model.layers.0.self_attn.v_proj.weight": (KV_HEADS * HEAD_DIM, HIDDEN),
        "model.layers.0.self_attn.o_proj.weight": (HIDDEN, HIDDEN),
        "model.layers.0.mlp.gate_proj.weight": (MLP, HIDDEN),
        "model.layers.0.mlp.up_proj.weight": (MLP, HIDDEN),
        "model.layers.0.mlp.down_proj.weight": (HIDDEN, MLP),
    }
    return {name: rng.standard_normal(shape, np.float32) for name, shape in shapes.items()}


def write_gguf(path: Path, *, quantised: bool = False, **changed: str) -> dict[str, np.ndarray]:
    """Writes the file and returns the weights; `changed` replaces `pre` or `architecture`."""
    weights = make_weights()
    writer = gguf.GGUFWriter(path, changed.get("architecture", "llama"))
    writer.add_embedding_length(HIDDEN)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_rope_dimension_count(HEAD_DIM)
    writer.add_rope_freq_base(10000.0)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_feed_forward_length(MLP)
    writer.add_context_length(128)
    writer.add_block_count(1)
    writer.add_vocab_size(len(make_vocabulary()))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(changed.get("pre", "smollm"))
    writer.add_token_list(make_vocabulary())
    writer.add_token_types([3, 3, 3] + [1] * (len(make_vocabulary()) - 3))
    writer.add_token_merges(["Ġ t", "h e", "1 2"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_pad_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_chat_template(TEMPLATE)
    hf_names = {
        f"model.layers.0.{hf}.weight": f"blk.0.{name}.weight"
        for name, hf in gguf_to_hf.LAYER_TENSORS.items()
    } | {hf: name for name, hf in gguf_to_hf.MODEL_TENSORS.items()}
    for name, weight in weights.items():
        stored = weight
        if "q_proj" in name:
            stored = interleaved_rows(weight, HEADS)
        if "k_proj" in name:
            stored = interleaved_rows(weight, KV_HEADS)
        if quantised and weight.ndim == 2:
            kind = gguf.GGMLQuantizationType.Q4_1
            writer.add_tensor(hf_names[name], gguf.quants.quantize(stored, kind), raw_dtype=kind)
        else:
            writer.add_tensor(hf_names[name], stored)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return weights


def test_weights_come_out_as_they_went_in(tmp_path: Path) -> None:
    expected = write_gguf(tmp_path / "model.gguf")
    gguf_to_hf.convert(tmp_path / "model.gguf", tmp_path / "hf")
    written = load_file(tmp_path / "hf" / "model.safetensors")

    assert written.keys() == expected.keys()
    for name, weight in expected.items():
        assert written[name].dtype == np.float32
        np.testing.assert_array_equal(written[name], weight, err_msg=name)


def test_quantised_weights_are_what_their_blocks_stand_for(tmp_path: Path) -> None:
    original = write_gguf(tmp_path / "model.gguf", quantised=True)
    gguf_to_hf.convert(tmp_path / "model.gguf", tmp_path / "hf")
    written = load_file(tmp_path / "hf" / "model.safetensors")

    for name, weight in original.items():
        if weight.ndim == 1:
            np.testing.assert_array_equal(written[name], weight)
            continue
        # Q4_1: 16 levels between the extremes of a block of 32; half a level, and fp16's rounding of both.
        blocks = weight.reshape(-1, 32)
        extent = np.ptp(blocks, axis=1) + np.abs(blocks).max(axis=1) * 2**-7
        error = np.abs(written[name].reshape(-1, 32) - blocks).max(axis=1)
        assert (error <= extent / 30 + np.abs(blocks).max(axis=1) * 2**-8).all(), name
        assert len(np.unique(written[name].reshape(-1, 32)[0])) <= 16


def test_config(tmp_path: Path) -> None:
    write_gguf(tmp_path / "model.gguf")
    gguf_to_hf.convert(tmp_path / "model.gguf", tmp_path / "hf")
    config = json.loads((tmp_path / "hf" / "config.json").read_text())

    assert config["architectures"] == ["LlamaForCausalLM"]
    assert config["num_key_value_heads"] == KV_HEADS
    assert config["head_dim"] == HEAD_DIM
    assert config["rms_norm_eps"] == 1e-5
    assert config["rope_theta"] == 10000.0
    assert config["tie_word_embeddings"] is True
    generation = json.loads((tmp_path / "hf" / "generation_config.json").read_text())
    assert generation == {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 2}


def test_tokenizer(tmp_path: Path) -> None:
    write_gguf(tmp_path / "model.gguf")
    gguf_to_hf.convert(tmp_path / "model.gguf", tmp_path / "hf")
    codec = lockstep.TextCodec.from_directory(tmp_path / "hf")
    vocabulary = make_vocabulary()

    # Merges apply inside words, and digits stand alone although the vocabulary has "12".
    text = "a the 12"
    expected = ["a", "Ġt", "he", "Ġ", "1", "2"]
    assert [vocabulary[i] for i in codec.encode(text)] == expected
    assert codec.decode(codec.encode(text)) == text
    assert codec.eos_token_id == 2
    chat = codec.encode_chat([{"role": "user", "content": "the"}])
    assert [vocabulary[i] for i in chat] == ["<|im_start|>", "t", "he", "<|im_end|>"]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"architecture": "qwen2"}, "general.architecture is 'qwen2'"),
        ({"pre": "llama-bpe"}, "tokenizer.ggml.pre is 'llama-bpe'"),
    ],
)
def test_the_unknown_is_refused_and_leaves_nothing(
    tmp_path: Path, changed: dict[str, str], message: str
) -> None:
    write_gguf(tmp_path / "model.gguf", **changed)
    with pytest.raises(gguf_to_hf.UnknownGgufError, match=message):
        gguf_to_hf.convert(tmp_path / "model.gguf", tmp_path / "hf")

    assert [path.name for path in tmp_path.iterdir()] == ["model.gguf"]


def test_an_existing_directory_is_not_touched(tmp_path: Path) -> None:
    write_gguf(tmp_path / "model.gguf")
    (tmp_path / "hf").mkdir()
    with pytest.raises(FileExistsError, match="hf exists"):
        gguf_to_hf.convert(tmp_path / "model.gguf", tmp_path / "hf")
    assert list((tmp_path / "hf").iterdir()) == []
