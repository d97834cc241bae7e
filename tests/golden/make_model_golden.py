"""Makes the stored fixtures of tests/core/model/golden_test.cc: a small random model of each family
that is served, and what transformers computes with it in fp32: logits, loss and every gradient.

Needs torch, transformers and safetensors, which are no part of tools/setup. Run it from this folder
in an environment that has them; the committed fixtures were made with the versions recorded in
golden.safetensors.

Beside every result lies its sensitivity: by how much it moves, root mean square, per unit of
relative random error in every weight at once, from double precision. The test turns it into a
tolerance. Rounding in a product w x is a relative error of w (Higham, Accuracy and Stability of
Numerical Algorithms, 3.1 and 3.5), so with the size of that error known from the chain's length the
sensitivity says what difference is rounding and what is a fault.
"""

import argparse
import pathlib

import safetensors.torch
import torch
import transformers

SEQUENCE_LENGTHS = (37, 150)  # the second crosses a block of 128 positions
PERTURBATION = 1e-7
PERTURBATION_DRAWS = 8
FIXTURES = ("llama_untied", "llama_tied", "llama3_rope", "mistral", "qwen2", "qwen3")


SHAPE = {
    "vocab_size": 67,
    "hidden_size": 48,
    "intermediate_size": 70,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 256,
    "rms_norm_eps": 1e-5,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "attn_implementation": "eager",
}
ROPE = {"rope_type": "default", "rope_theta": 500.0}
# Waves of this model are 6 to 1,441 positions long: some stay, some blend, some are stretched.
LLAMA3_ROPE = {
    "rope_type": "llama3",
    "rope_theta": 500.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 256,
}


def make_config(name: str) -> transformers.PreTrainedConfig:
    match name:
        case "llama_untied" | "llama_tied":
            return transformers.LlamaConfig(
                **SHAPE, rope_parameters=ROPE, tie_word_embeddings=name == "llama_tied"
            )
        case "llama3_rope":
            return transformers.LlamaConfig(
                **SHAPE, rope_parameters=LLAMA3_ROPE, tie_word_embeddings=True
            )
        case "mistral":
            return transformers.MistralConfig(
                **SHAPE, rope_parameters=ROPE, tie_word_embeddings=False, sliding_window=None
            )
        case "qwen2":  # has no head_dim in its configuration, so it is hidden_size / heads
            shape = {**SHAPE, "hidden_size": 64, "intermediate_size": 60}
            del shape["head_dim"]
            return transformers.Qwen2Config(
                **shape, rope_parameters=ROPE, tie_word_embeddings=False
            )
        case "qwen3":
            return transformers.Qwen3Config(**SHAPE, rope_parameters=ROPE, tie_word_embeddings=True)
        case _:
            raise ValueError(name)


def make_model(name: str, generator: torch.Generator) -> transformers.PreTrainedModel:
    """Weights large enough that attention is far from uniform and silu far from linear."""
    model = transformers.AutoModelForCausalLM.from_config(make_config(name)).to(torch.float32)
    with torch.no_grad():
        for parameter_name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            parameter.copy_(1 + 0.25 * noise if "norm" in parameter_name else 0.2 * noise)
    return model.eval()


class DoubleRmsNorm(torch.nn.Module):
    """The RMSNorm of these families without its cast to fp32, for the sensitivities."""

    def __init__(self, norm: torch.nn.Module) -> None:
        super().__init__()
        self.weight = norm.weight
        self.epsilon = norm.variance_epsilon

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.epsilon))


def in_double(model: transformers.PreTrainedModel) -> transformers.PreTrainedModel:
    double = type(model)(model.config)
    double.load_state_dict(model.state_dict())
    double = double.to(torch.float64).eval()
    norms = [name for name, module in double.named_modules() if hasattr(module, "variance_epsilon")]
    for name in norms:
        double.set_submodule(name, DoubleRmsNorm(double.get_submodule(name)))
    return double


def evaluate(
    model: transformers.PreTrainedModel, data: dict[str, torch.Tensor]
) -> dict[str, torch.Tensor]:
    """Logits, log-probs of the targets, loss = -sum weight * log-prob, and every gradient."""
    model.zero_grad()
    logits, log_probs = [], []
    begin = 0
    for length in data["sequence_lengths"].tolist():
        rows = slice(begin, begin + length)
        begin += length
        out = model(data["tokens"][rows].long()[None], use_cache=False).logits[0]
        chosen = data["targets"][rows].long()[:, None]
        logits.append(out)
        log_probs.append(torch.log_softmax(out, dim=-1).gather(1, chosen)[:, 0])
    log_prob = torch.cat(log_probs)
    loss = -(data["weights"].to(log_prob.dtype) * log_prob).sum()
    loss.backward()
    results = {
        "logits": torch.cat(logits).detach(),
        "log_prob": log_prob.detach(),
        "loss": loss.detach()[None],
    }
    for name, parameter in model.named_parameters():
        results["grad." + name] = parameter.grad.detach().clone()
    return results


def sensitivities(
    model: transformers.PreTrainedModel,
    data: dict[str, torch.Tensor],
    generator: torch.Generator,
) -> dict[str, torch.Tensor]:
    double = in_double(model)
    exact = evaluate(double, data)
    originals = [parameter.detach().clone() for parameter in double.parameters()]
    squares = {name: 0.0 for name in exact}
    for _ in range(PERTURBATION_DRAWS):
        with torch.no_grad():
            for parameter, original in zip(double.parameters(), originals, strict=True):
                noise = torch.randn(original.shape, generator=generator, dtype=torch.float64)
                parameter.copy_(original * (1 + PERTURBATION * noise))
        for name, moved in evaluate(double, data).items():
            change = (moved - exact[name]) / PERTURBATION
            squares[name] += change.pow(2).mean().item() / PERTURBATION_DRAWS
    return {
        "sensitivity." + name: torch.tensor([square**0.5], dtype=torch.float32)
        for name, square in squares.items()
    }


def make_fixture(directory: pathlib.Path, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    model = make_model(directory.name, generator)
    rows = sum(SEQUENCE_LENGTHS)
    vocabulary = model.config.vocab_size
    weights = torch.randn(rows, generator=generator)
    weights[::5] = 0  # masked tokens
    data = {
        "tokens": torch.randint(vocabulary, (rows,), generator=generator, dtype=torch.int32),
        "targets": torch.randint(vocabulary, (rows,), generator=generator, dtype=torch.int32),
        "weights": weights,
        "sequence_lengths": torch.tensor(SEQUENCE_LENGTHS, dtype=torch.int32),
    }
    results = evaluate(model, data)
    model.save_pretrained(directory)
    safetensors.torch.save_file(
        data | results | sensitivities(model, data, generator),
        directory / "golden.safetensors",
        metadata={"torch": torch.__version__, "transformers": transformers.__version__},
    )
    count = sum(parameter.numel() for parameter in model.parameters())
    print(f"{directory}: {count} parameters, loss {results['loss'].item():.6f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=pathlib.Path, default=pathlib.Path("."))
    parser.add_argument("--only", help="the name of one fixture")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    for seed, name in enumerate(FIXTURES, start=20):
        if arguments.only in (None, name):
            make_fixture(arguments.output / name, seed)


if __name__ == "__main__":
    main()
