"""Trains small_llama, the model of tests/integration/trained_model_test.py, in some minutes on one core.

Needs torch, transformers and tokenizers, which are no part of tools/setup. Run it from this folder,
then make_small_llama_golden.py. The seed fixes every draw, but another machine adds in another order
and gives other weights: the committed ones are what the stored results belong to.

It learns to continue the licence texts that every Debian has, byte by byte, so its distributions are
peaked and what it writes can be read. Two things of published models are in it on purpose. A
paragraph ends with <|end|> and a text with <|eos|>, so generation_config.json lists both; config.json
names the second alone. And there are more rows of embeddings than tokens: those of the last ids are
padding that no text trains.
"""

import argparse
import pathlib
import re

import tokenizers
import torch
import transformers
from transformers.convert_slow_tokenizer import bytes_to_unicode

LICENSES = pathlib.Path("/usr/share/common-licenses")
TEXTS = ("Apache-2.0", "GPL-2", "GPL-3", "MPL-2.0")

SPECIAL_TOKENS = {"<|bos|>": 256, "<|eos|>": 257, "<|end|>": 258}
BOS, EOS, END = SPECIAL_TOKENS.values()
VOCABULARY_PADDED = 320  # to a multiple of 64, as is the custom

SEED = 7
STEPS = 1200
BATCH = 8
WINDOW = 256
LEARNING_RATE = 6e-3
WARMUP_STEPS = 50


def encode(text: str) -> list[int]:
    """Ids of a file's text: its paragraphs as single lines, each with what ends it."""
    ids = [BOS]
    for paragraph in re.split(r"\n\s*\n", text.strip()):
        ids += [*" ".join(paragraph.split()).encode(), END]
    return [*ids[:-1], EOS]


def make_tokenizer() -> tokenizers.Tokenizer:
    """A token is a byte and its id is the byte's value; without merges a BPE leaves it so."""
    vocabulary = {character: byte for byte, character in bytes_to_unicode().items()}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(vocabulary, []))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(
        add_prefix_space=False, use_regex=False
    )
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    tokenizer.add_special_tokens(list(SPECIAL_TOKENS))
    assert all(tokenizer.token_to_id(text) == i for text, i in SPECIAL_TOKENS.items())
    return tokenizer


def make_model() -> transformers.LlamaForCausalLM:
    config = transformers.LlamaConfig(
        vocab_size=VOCABULARY_PADDED,
        hidden_size=96,
        intermediate_size=176,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=24,
        max_position_embeddings=WINDOW,
        rms_norm_eps=1e-5,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
        tie_word_embeddings=True,
        initializer_range=0.05,
        bos_token_id=BOS,
        eos_token_id=EOS,
    )
    return transformers.LlamaForCausalLM(config)


def train(model: transformers.LlamaForCausalLM, stream: torch.Tensor) -> None:
    """AdamW over windows at random places; the rate rises along a line and falls along a cosine."""
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=LEARNING_RATE, betas=(0.9, 0.95), weight_decay=0.1
    )
    schedule = transformers.get_cosine_schedule_with_warmup(optimizer, WARMUP_STEPS, STEPS)
    for step in range(1, STEPS + 1):
        begins = torch.randint(len(stream) - WINDOW + 1, (BATCH,)).tolist()
        windows = torch.stack([stream[begin : begin + WINDOW] for begin in begins])
        loss = model(windows, labels=windows, use_cache=False).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 50 == 0:
            print(f"step {step}: {loss.item():.4f} nats a byte", flush=True)


def save(model: transformers.LlamaForCausalLM, directory: pathlib.Path) -> None:
    model.generation_config = transformers.GenerationConfig(
        bos_token_id=BOS, eos_token_id=[EOS, END]
    )
    model.to(torch.bfloat16).save_pretrained(directory)
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=make_tokenizer(),
        bos_token="<|bos|>",
        eos_token="<|eos|>",
        model_max_length=WINDOW,
    ).save_pretrained(directory)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=pathlib.Path, default=pathlib.Path("small_llama"))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(SEED)
    stream = torch.tensor([i for name in TEXTS for i in encode((LICENSES / name).read_text())])
    model = make_model()
    count = sum(parameter.numel() for parameter in model.parameters())
    print(f"{count} parameters, {len(stream)} tokens of text")
    train(model, stream)
    save(model, arguments.output)


if __name__ == "__main__":
    main()
