"""Makes what tests/integration/trained_model_test.py compares small_llama with: transformers' results
in fp32 from the committed bf16 weights.

Run it from this folder, after train_small_llama.py and in its environment; the committed files were
made with the versions recorded in them.

golden.safetensors: log-probs and mean loss of a text that was not trained on ("held_out."), and of
one in which every fourth id is one of the padded vocabulary ("padded."), in the form of
make_model_golden.py, with the sensitivities that it explains; and the losses of some steps of AdamW
over parts of both.

continuations.json: greedy continuations in the form of make_smollm2_golden.py, and beside each what
generate() makes of the same prompt, which ends at an end-of-sequence id.
"""

import argparse
import json
import pathlib

import safetensors.torch
import torch
import transformers
from make_model_golden import evaluate, sensitivities
from make_smollm2_golden import TOKENS, greedy
from train_small_llama import BOS, LICENSES, SPECIAL_TOKENS, VOCABULARY_PADDED, WINDOW, encode

HELD_OUT = "CC0-1.0"  # in the public domain
PADDED_IDS = range(len(SPECIAL_TOKENS) + 256, VOCABULARY_PADDED)
TRAINED_WINDOWS = 4
STEPS = 4
LEARNING_RATE = 1e-3

# A greedy choice by less than this, in logits, may go the other way by rounding.
LOGIT_GAP_MIN = 1e-3

PROMPTS = (
    "THERE IS NO WARRANTY FOR THE PROGRAM, TO THE EXTENT ",
    "This program is distributed in the hope that it ",
    "If you convey ",
    "This program is free software: you can ",
    "Copyright (C) ",
    "<https://www.gnu.org/licenses/why-not-lgpl.html>.",
)

Data = dict[str, torch.Tensor]


def make_data(sequences: list[list[int]]) -> Data:
    """Sequences to be scored from their second id on, every row with the weight of a mean."""
    rows = sum(len(sequence) - 1 for sequence in sequences)
    inputs = [i for sequence in sequences for i in sequence[:-1]]
    targets = [i for sequence in sequences for i in sequence[1:]]
    return {
        "tokens": torch.tensor(inputs, dtype=torch.int32),
        "targets": torch.tensor(targets, dtype=torch.int32),
        "weights": torch.full((rows,), 1 / rows),
        "sequence_lengths": torch.tensor([len(s) - 1 for s in sequences], dtype=torch.int32),
    }


def with_padded_ids(sequence: list[int]) -> list[int]:
    padded = [*PADDED_IDS, *PADDED_IDS]
    return [padded[i // 4] if i % 4 == 3 else token for i, token in enumerate(sequence)]


def results(model: transformers.PreTrainedModel, data: Data) -> Data:
    """The data, log-probs and loss with their sensitivities; gradients would be larger than the model."""
    everything = (
        data | evaluate(model, data) | sensitivities(model, data, torch.Generator().manual_seed(1))
    )
    kept = (*data, "log_prob", "loss", "sensitivity.log_prob", "sensitivity.loss")
    return {name: everything[name] for name in kept}


def training_losses(model: transformers.PreTrainedModel, data: Data) -> torch.Tensor:
    """The loss before every step, and after the last. Changes the model."""
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=LEARNING_RATE, betas=(0.9, 0.95), eps=1e-8, weight_decay=0
    )
    losses = [evaluate(model, data)["loss"]]
    for _ in range(STEPS):
        optimizer.step()
        losses.append(evaluate(model, data)["loss"])
    return torch.cat(losses)


def continuation(model: transformers.PreTrainedModel, text: str, prompt: list[int]) -> dict:
    result = {"text": text, "prompt_tokens": prompt, **greedy(model, prompt)}
    assert min(result["logit_gaps"]) > LOGIT_GAP_MIN, f"{text!r} has a near tie"
    generated = model.generate(torch.tensor([prompt]), max_new_tokens=TOKENS, do_sample=False)
    return result | {"generated": generated[0, len(prompt) :].tolist()}


def readable(ids: list[int]) -> str:
    return b"".join(bytes([i]) if i < BOS else b"<%d>" % i for i in ids).decode(errors="replace")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=pathlib.Path, default=pathlib.Path("small_llama"))
    directory = parser.parse_args().model
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32).eval()
    versions = {"torch": torch.__version__, "transformers": transformers.__version__}

    text = encode((LICENSES / HELD_OUT).read_text())
    windows = [text[i : i + WINDOW] for i in range(0, len(text) - WINDOW + 1, WINDOW)]
    padded = with_padded_ids(windows[0])
    prompts = [(prompt, list(prompt.encode())) for prompt in PROMPTS]
    prompts.append(("with padded ids", padded[:40]))
    continuations = [continuation(model, *prompt) for prompt in prompts]
    for made in continuations:
        print(f"{min(made['logit_gaps']):.4f} {made['text']!r} -> {readable(made['generated'])!r}")
    golden = {"made_with": versions, "continuations": continuations}
    (directory / "continuations.json").write_text(json.dumps(golden) + "\n")

    tensors = {
        f"{name}.{key}": value
        for name, sequences in (("held_out", windows), ("padded", [padded]))
        for key, value in results(model, make_data(sequences)).items()
    }
    trained = make_data([*windows[:TRAINED_WINDOWS], padded])
    tensors["training_losses"] = training_losses(model, trained)
    for name in ("held_out.loss", "padded.loss", "training_losses"):
        print(name, tensors[name].tolist())
    safetensors.torch.save_file(tensors, directory / "golden.safetensors", metadata=versions)


if __name__ == "__main__":
    main()
