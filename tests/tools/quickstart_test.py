"""Goal: the quickstart's verdict and its display. The learning itself is tested in addition_rl/ and by running it."""

import io
from pathlib import Path

import pytest
import quickstart
from addition_rl.display import Display
from addition_rl.learning import RlStep, WarmupStep
from rich.console import Console

GOOD = quickstart.Outcome(
    accuracy_before=0.60,
    accuracy_after=0.97,
    compared_tokens=1000,
    mismatched_tokens=0,
    weights_digest="00",
)


def changed(**values: float) -> quickstart.Outcome:
    return quickstart.Outcome(**vars(GOOD) | values)


def test_all_as_promised() -> None:
    assert GOOD.faults(judge_accuracy=True) == []


@pytest.mark.parametrize(
    ("outcome", "fault"),
    [
        (changed(compared_tokens=0), "no token was compared"),
        (changed(mismatched_tokens=2), "2 tokens differ"),
        (changed(accuracy_after=0.89), "accuracy after RL is below 0.9"),
        (changed(accuracy_before=0.8), "accuracy rose by less than 0.25"),
    ],
)
def test_each_broken_promise_is_told(outcome: quickstart.Outcome, fault: str) -> None:
    assert outcome.faults(judge_accuracy=True) == [fault]


def test_short_runs_are_not_judged_by_accuracy() -> None:
    assert changed(accuracy_after=0.1).faults(judge_accuracy=False) == []
    assert changed(mismatched_tokens=1).faults(judge_accuracy=False) == ["1 tokens differ"]


def rl_step(index: int, mismatched: int = 0) -> RlStep:
    return RlStep(
        index=index,
        reward=0.5,
        loss=-0.125,
        entropy=0.3,
        compared_tokens=1000,
        mismatched_tokens=mismatched,
        tokens_per_second=12345.6,
    )


def test_lines_without_a_terminal_and_totals() -> None:
    output = io.StringIO()
    with Display(Console(file=output, width=200), warmup_steps=20, rl_steps=20) as display:
        for index in range(1, 21):
            display.show_warmup(WarmupStep(index, 1.5, 1000.0), 0.25 if index == 20 else None)
        for index in range(1, 21):
            display.show_rl(rl_step(index, mismatched=int(index == 3)), None)
    warmup_line, rl_line = output.getvalue().splitlines()

    assert warmup_line == "warm-up    20  loss 1.500  accuracy 0.250  1,000 tokens/s"
    assert rl_line == (
        "GRPO       20  loss -0.125  reward 0.500  accuracy -"
        "  mismatched 1 of 20,000  12,346 tokens/s"
    )
    assert (display.compared_tokens, display.mismatched_tokens) == (20_000, 1)


def test_plot_is_a_png(tmp_path: Path) -> None:
    display = Display(Console(file=io.StringIO()), warmup_steps=1, rl_steps=1)
    display.show_warmup(WarmupStep(1, 1.5, 1000.0), 0.25)
    display.show_rl(rl_step(1), 0.5)
    display.save_plot(tmp_path / "plot.png")

    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
