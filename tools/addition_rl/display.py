"""What the quickstart shows: two live progress bars on a terminal, lines in a log, and a plot at the end."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from addition_rl.learning import RlStep, WarmupStep

# Without a terminal, a line is printed every so many steps.
LINE_EVERY_STEPS = 20


class Display:
    """Live progress; a context manager. Keeps what it was told for the plot."""

    def __init__(self, console: Console, warmup_steps: int, rl_steps: int) -> None:
        self._console = console
        self._progress = Progress(
            TextColumn("[bold]{task.description:<8}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[numbers]}"),
            console=console,
            disable=not console.is_terminal,
        )
        self._warmup_task = self._progress.add_task("warm-up", total=warmup_steps, numbers="")
        self._rl_task = self._progress.add_task("GRPO", total=rl_steps, numbers="")
        self.warmup: list[WarmupStep] = []
        self.rl: list[RlStep] = []
        self.warmup_accuracy: list[tuple[int, float]] = []
        self.rl_accuracy: list[tuple[int, float]] = []

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._progress.stop()

    @property
    def compared_tokens(self) -> int:
        """Of all RL steps so far."""
        return sum(step.compared_tokens for step in self.rl)

    @property
    def mismatched_tokens(self) -> int:
        """Of all RL steps so far."""
        return sum(step.mismatched_tokens for step in self.rl)

    def say(self, text: str) -> None:
        """A line that stays, above the bars."""
        self._progress.console.print(text, highlight=False, soft_wrap=True)

    def show_warmup(self, step: WarmupStep, probe: float | None) -> None:
        """`probe`: held-out accuracy, where it was measured after this step."""
        self.warmup.append(step)
        if probe is not None:
            self.warmup_accuracy.append((step.index, probe))
        numbers = f"loss {step.loss:.3f}  {_accuracy_text(self.warmup_accuracy)}"
        self._show(
            self._warmup_task, step.index, f"{numbers}  {step.tokens_per_second:,.0f} tokens/s"
        )

    def show_rl(self, step: RlStep, probe: float | None) -> None:
        """As show_warmup."""
        self.rl.append(step)
        if probe is not None:
            self.rl_accuracy.append((step.index, probe))
        self._show(
            self._rl_task,
            step.index,
            f"loss {step.loss:+.3f}  reward {step.reward:.3f}  {_accuracy_text(self.rl_accuracy)}"
            f"  mismatched {self.mismatched_tokens} of {self.compared_tokens:,}"
            f"  {step.tokens_per_second:,.0f} tokens/s",
        )

    def _show(self, task: int, index: int, numbers: str) -> None:
        self._progress.update(task, completed=index, numbers=numbers)
        if not self._console.is_terminal and index % LINE_EVERY_STEPS == 0:
            name = "warm-up" if task == self._warmup_task else "GRPO"
            self._console.print(f"{name:<8}{index:>5}  {numbers}", highlight=False, soft_wrap=True)

    def save_plot(self, path: Path) -> None:
        """Loss, reward and held-out accuracy over the steps of both halves, as a PNG."""
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib import pyplot

        figure, (loss_axes, reward_axes, accuracy_axes) = pyplot.subplots(
            3, 1, figsize=(8, 9), sharex=True, layout="constrained"
        )
        offset = len(self.warmup)
        loss_axes.plot([s.index for s in self.warmup], [s.loss for s in self.warmup])
        loss_axes.set_ylabel("warm-up loss, nats a token")
        reward_axes.plot([offset + s.index for s in self.rl], [s.reward for s in self.rl])
        reward_axes.set_ylabel("mean reward of the samples")
        reward_axes.set_ylim(0, 1)
        points = self.warmup_accuracy + [(offset + i, value) for i, value in self.rl_accuracy]
        accuracy_axes.plot([i for i, _ in points], [value for _, value in points], marker=".")
        accuracy_axes.set_ylabel("held-out accuracy")
        accuracy_axes.set_ylim(0, 1)
        accuracy_axes.set_xlabel("step")
        for axes in (loss_axes, reward_axes, accuracy_axes):
            axes.axvline(offset, color="grey", linestyle="--", linewidth=1)
            axes.grid(alpha=0.3)
        loss_axes.set_title("cross entropy on written answers, then GRPO on exact match")
        figure.savefig(path, dpi=120)
        pyplot.close(figure)


def _accuracy_text(points: list[tuple[int, float]]) -> str:
    return f"accuracy {points[-1][1]:.3f}" if points else "accuracy -"
