"""The rows of the table: what is done, by which two sides, and what bounds it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from model_bench.limits import (
    ModelShape,
    Work,
    decode_work,
    forward_work,
    prefill_work,
    train_work,
)


@dataclass(frozen=True)
class Row:
    """One comparison. The unit's name and its sizes are the same on both sides."""

    name: str
    title: str
    profile: str  # ours: "bf16" or "fp32"
    peer: str  # a side by its name in sides.py
    unit: str
    sizes: dict[str, int] = field(default_factory=dict)
    # What of the machine bounds it, by the model's shape; None where no limit is named.
    work: Callable[[ModelShape], Work] | None = None
    # What "tokens a second" counts where it is not obvious.
    note: str = ""

    @property
    def ours(self) -> str:
        return f"lockstep-{self.profile}"


def decode_row(sequences: int) -> Row:
    prompt_tokens, new_tokens = 64, 129
    return Row(
        name=f"decode-{sequences}",
        title=f"decode, {sequences} sequence{'s' if sequences > 1 else ''}, context 64 to 192, bf16",
        profile="bf16",
        peer="llama.cpp",
        unit="decode",
        sizes={
            "sequences": sequences,
            "prompt_tokens": prompt_tokens,
            "new_tokens": new_tokens,
        },
        work=lambda shape: decode_work(
            shape, "bf16", sequences=sequences, context=prompt_tokens + new_tokens / 2
        ),
    )


def forward_row(precision: str) -> Row:
    return Row(
        name=f"forward-{precision}",
        title=f"forward (score), 4 x 128, {precision}",
        profile=precision,
        peer=f"torch-{precision}",
        unit="forward",
        sizes={"sequences": 4, "tokens": 128, "repeats": 2},
        work=lambda shape: forward_work(shape, tokens=4 * 128),
    )


def train_row(name: str, profile: str, peer: str, peer_text: str) -> Row:
    return Row(
        name=name,
        title=f"training step, 4 x 128, {profile} (peer: {peer_text})",
        profile=profile,
        peer=peer,
        unit="train_step",
        sizes={"sequences": 4, "tokens": 128},
        work=lambda shape: train_work(shape, tokens=4 * 128),
    )


def grpo_row(precision: str) -> Row:
    return Row(
        name=f"grpo-{precision}",
        title=f"GRPO iteration, 16 samples x 32 tokens of a 64-token prompt, then a step, {precision}",
        profile=precision,
        peer=f"torch-{precision}",
        unit="grpo",
        sizes={"prompt_tokens": 64, "samples": 16, "new_tokens": 32},
        note="sampled tokens",
    )


# Neighbours share their sides, so that few are alive at one time.
ROWS = (
    decode_row(1),
    Row(
        name="prefill",
        title="prefill of 256 tokens, bf16",
        profile="bf16",
        peer="llama.cpp",
        unit="prefill",
        sizes={"tokens": 256, "repeats": 3},
        work=lambda shape: prefill_work(shape, "bf16", tokens=256),
    ),
    decode_row(16),
    forward_row("bf16"),
    train_row("train-bf16-pure", "bf16", "torch-bf16", "weights and moments in bf16 too"),
    grpo_row("bf16"),
    train_row("train-bf16", "bf16", "torch-autocast", "autocast over fp32 masters, as ours"),
    forward_row("fp32"),
    train_row("train-fp32", "fp32", "torch-fp32", "fp32"),
    grpo_row("fp32"),
)


def rows_by_name(names: str) -> list[Row]:
    """Rows of a comma-separated list, in the table's order; "all" is all. ValueError names the unknown one."""
    known = {row.name for row in ROWS}
    asked = known if names == "all" else {name for name in names.split(",") if name}
    if unknown := sorted(asked - known):
        raise ValueError(f"no row {unknown[0]!r}; known are {', '.join(row.name for row in ROWS)}")
    if not asked:
        raise ValueError("no row is named")
    return [row for row in ROWS if row.name in asked]
