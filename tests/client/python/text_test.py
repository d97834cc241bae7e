"""Goal: text goes to ids and back by the directory's own files, and a template cannot reach outside its sandbox."""

import json
from pathlib import Path

import lockstep
import numpy as np
import pytest
from tokenizers import Tokenizer

TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|' + message['role'] + '|>' + message['content'] + eos_token + '\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)


@pytest.fixture
def directory(tmp_path: Path, byte_tokenizer: Tokenizer) -> Path:
    """A byte-level tokenizer with two special tokens."""
    byte_tokenizer.add_special_tokens(["<|end|>", "<|assistant|>"])
    byte_tokenizer.save(str(tmp_path / "tokenizer.json"))
    config = {"eos_token": {"content": "<|end|>"}, "chat_template": TEMPLATE}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    return tmp_path


def test_text_comes_back(directory: Path) -> None:
    codec = lockstep.TextCodec.from_directory(directory)
    text = "Grüße, 12+34=46\n\t\N{SNOWMAN}"
    ids = codec.encode(text)

    assert ids.dtype == np.int32
    assert len(ids) == len(text.encode())
    assert codec.decode(ids) == text


def test_special_tokens(directory: Path) -> None:
    codec = lockstep.TextCodec.from_directory(directory)

    assert codec.vocab_size == 258
    assert codec.eos_token_id == 256
    assert codec.bos_token_id is None
    ids = codec.encode("a<|end|>")
    assert ids[-1] == 256
    assert codec.decode(ids) == "a"
    assert codec.decode(ids, skip_special_tokens=False) == "a<|end|>"


def test_chat_template(directory: Path) -> None:
    codec = lockstep.TextCodec.from_directory(directory)
    messages = [{"role": "user", "content": "hi"}]

    assert codec.chat_prompt(messages) == "<|user|>hi<|end|>\n<|assistant|>"
    assert codec.chat_prompt(messages, add_generation_prompt=False) == "<|user|>hi<|end|>\n"
    np.testing.assert_array_equal(
        codec.encode_chat(messages), codec.encode("<|user|>hi<|end|>\n<|assistant|>")
    )


def test_template_in_a_file_of_its_own(directory: Path) -> None:
    (directory / "chat_template.jinja").write_text("{{ messages[0]['content'] }}!")
    codec = lockstep.TextCodec.from_directory(directory)

    assert codec.chat_prompt([{"role": "user", "content": "hi"}]) == "hi!"


def test_template_is_sandboxed(directory: Path) -> None:
    (directory / "chat_template.jinja").write_text("{{ messages.__class__.__mro__ }}")
    codec = lockstep.TextCodec.from_directory(directory)

    with pytest.raises(Exception, match="unsafe"):
        codec.chat_prompt([{"role": "user", "content": "hi"}])


def test_missing_files_are_named(directory: Path, tmp_path: Path) -> None:
    (directory / "tokenizer_config.json").unlink()
    codec = lockstep.TextCodec.from_directory(directory)
    assert codec.eos_token_id is None
    with pytest.raises(ValueError, match="has no chat template"):
        codec.chat_prompt([{"role": "user", "content": "hi"}])

    with pytest.raises(FileNotFoundError, match=r"nowhere/tokenizer\.json"):
        lockstep.TextCodec.from_directory(tmp_path / "nowhere")
