#!/usr/bin/env python3
"""Writes smollm2_greedy.json: greedy continuations of SmolLM2-135M-Instruct by transformers, in fp32.

Needs torch and transformers, which are no part of tools/setup; the file was made with the versions
it names.

  tests/golden/make_smollm2_golden.py "$(tools/get_smollm2)"

Per prompt: its token ids; 64 token ids, end-of-sequence tokens not heeded; for each of them the
log-prob at temperature 1, the id of the second-best token, and by how much its logit is lower. A
small gap is a near tie, which rounding may decide either way.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch
import transformers

TOKENS = 64
OUTPUT = Path(__file__).resolve().parent / "smollm2_greedy.json"

CHATS = [
    "What is the capital of France, and what is it known for?",
    "Write a short story about a lighthouse keeper who finds a message in a bottle.",
    "Explain to a child why the sky is blue.",
]
TEXTS = [
    "def fibonacci(n):\n    ",
    "The three laws of thermodynamics are:\n1.",
]


def prompts(tokenizer: transformers.PreTrainedTokenizerBase) -> list[tuple[str, list[int]]]:
    """Text and ids of each prompt, chats through the model's own template."""
    rendered = [
        tokenizer.apply_chat_template(
            [{"role": "user", "content": question}], add_generation_prompt=True, tokenize=False
        )
        for question in CHATS
    ]
    return [(text, tokenizer(text).input_ids) for text in rendered + TEXTS]


@torch.inference_mode()
def greedy(model: transformers.PreTrainedModel, prompt: list[int]) -> dict[str, list]:
    """Greedy continuation of TOKENS tokens, one at a time over transformers' own KV cache."""
    result: dict[str, list] = {"tokens": [], "logprobs": [], "second_tokens": [], "logit_gaps": []}
    inputs = torch.tensor([prompt])
    cache = None
    for _ in range(TOKENS):
        output = model(inputs, past_key_values=cache, use_cache=True)
        cache = output.past_key_values
        logits = output.logits[0, -1]
        best = torch.topk(logits, 2)
        logprob = torch.log_softmax(logits.double(), -1)[best.indices[0]]
        result["tokens"].append(int(best.indices[0]))
        result["logprobs"].append(round(float(logprob), 6))
        result["second_tokens"].append(int(best.indices[1]))
        result["logit_gaps"].append(round(float(best.values[0] - best.values[1]), 6))
        inputs = best.indices[:1].reshape(1, 1)
    return result


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit("usage: make_smollm2_golden.py MODEL_DIRECTORY")
    torch.manual_seed(0)
    tokenizer = transformers.AutoTokenizer.from_pretrained(sys.argv[1])
    model = transformers.AutoModelForCausalLM.from_pretrained(sys.argv[1], dtype=torch.float32)
    model.eval()
    continuations = [
        {"text": text, "prompt_tokens": ids, **greedy(model, ids)}
        for text, ids in prompts(tokenizer)
    ]
    golden = {
        "model": "SmolLM2-135M-Instruct, Q4_1 dequantised to fp32 by tools/get_smollm2",
        "made_with": f"torch {torch.__version__}, transformers {transformers.__version__}",
        "continuations": continuations,
    }
    OUTPUT.write_text(json.dumps(golden) + "\n")
    for continuation in continuations:
        print(min(continuation["logit_gaps"]), tokenizer.decode(continuation["tokens"]))


if __name__ == "__main__":
    main()
