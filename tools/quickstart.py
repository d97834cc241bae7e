#!/usr/bin/env python3
"""A tiny model learns to add: by examples, then by reward, on one server that generates and trains.

tools/quickstart builds the server and calls this. With every --stages, --micro-batch-size and
--threads it prints the same weights digest.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType

import lockstep
from addition_rl.display import Display
from addition_rl.learning import Schedule, accuracy, reinforce, warm_up
from addition_rl.problems import split_problems
from rich.console import Console

REPOSITORY_ROOT = Path(__file__).resolve().parent.parent
SERVER_BINARY = REPOSITORY_ROOT / "bazel-bin" / "server" / "lockstep_server"

# What a run with the default steps must reach, or the exit status is 1.
ACCURACY_RISE_MIN = 0.25
ACCURACY_AFTER_MIN = 0.90


def parse_arguments(arguments: list[str]) -> argparse.Namespace:
    defaults = Schedule()
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    parser = argparse.ArgumentParser(prog="tools/quickstart", description=__doc__)
    parser.add_argument(
        "--work-dir",
        type=Path,
        default=cache / "lockstep" / "quickstart",
        help="model, log and plot go here (default: %(default)s)",
    )
    parser.add_argument("--stages", type=int, default=1, help="pipeline stages")
    parser.add_argument("--micro-batch-size", type=int, help="data in a training micro-batch")
    parser.add_argument("--threads", type=int, help="compute threads (default: one a core)")
    parser.add_argument(
        "--warmup-steps",
        type=int,
        default=defaults.warmup_steps,
        help="steps of cross entropy (default: %(default)s)",
    )
    parser.add_argument(
        "--rl-steps",
        type=int,
        default=defaults.rl_steps,
        help="steps of GRPO (default: %(default)s)",
    )
    parser.add_argument(
        "--seed",
        type=int,
        default=defaults.seed,
        help="of the initial weights, the data's order and every draw (default: %(default)s)",
    )
    parser.add_argument(
        "--server-binary",
        type=Path,
        default=SERVER_BINARY,
        help="lockstep_server (default: %(default)s)",
    )
    return parser.parse_args(arguments)


def init_model(binary: Path, directory: Path, seed: int) -> None:
    """Writes the tiny byte-level model anew; the seed names its weights."""
    shutil.rmtree(directory, ignore_errors=True)
    command = [binary, "init-model", directory, f"--seed={seed}"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def server_flags(arguments: argparse.Namespace) -> dict[str, str | int | bool]:
    flags: dict[str, str | int | bool] = {"stages": arguments.stages}
    if arguments.micro_batch_size is not None:
        flags["micro_batch_size"] = arguments.micro_batch_size
    if arguments.threads is not None:
        flags["threads"] = arguments.threads
    return flags


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What a run of the quickstart is judged by."""

    accuracy_before: float
    accuracy_after: float
    compared_tokens: int
    mismatched_tokens: int
    weights_digest: str

    def faults(self, *, judge_accuracy: bool) -> list[str]:
        """What is not as promised; empty when all is well."""
        faults = []
        if self.compared_tokens == 0:
            faults.append("no token was compared")
        if self.mismatched_tokens > 0:
            faults.append(f"{self.mismatched_tokens} tokens differ")
        if judge_accuracy and self.accuracy_after < ACCURACY_AFTER_MIN:
            faults.append(f"accuracy after RL is below {ACCURACY_AFTER_MIN}")
        if judge_accuracy and self.accuracy_after - self.accuracy_before < ACCURACY_RISE_MIN:
            faults.append(f"accuracy rose by less than {ACCURACY_RISE_MIN}")
        return faults


def learn(client: lockstep.Client, schedule: Schedule, display: Display) -> Outcome:
    training, held_out = split_problems()
    probe_problems = held_out[: schedule.probe_problems]
    probe_seed = lockstep.derive_seed(schedule.seed, "probe")

    def probe(step_index: int) -> float | None:
        if step_index % schedule.probe_every_steps:
            return None
        return accuracy(client, probe_problems, probe_seed)

    def measure(name: str) -> float:
        seed = lockstep.derive_seed(schedule.seed, "held-out", name)
        value = accuracy(client, held_out, seed)
        display.say(
            f"held-out accuracy {name}: {value:.3f}"
            f"  ({len(held_out)} problems never trained on, sampled at temperature 1)"
        )
        return value

    with client.run("quickstart") as run:
        for warmup_step in warm_up(run, training, schedule):
            display.show_warmup(warmup_step, probe(warmup_step.index))
        before = measure("before RL")
        for rl_step in reinforce(client, run, training, schedule):
            display.show_rl(rl_step, probe(rl_step.index))
        after = measure("after RL")
    return Outcome(
        accuracy_before=before,
        accuracy_after=after,
        compared_tokens=display.compared_tokens,
        mismatched_tokens=display.mismatched_tokens,
        weights_digest=client.info().weights_digest,
    )


def exit_in_order(number: int, frame: FrameType | None) -> None:
    """SIGTERM as an exception, so that `with` blocks end the server."""
    sys.exit(128 + number)


def main() -> int:
    arguments = parse_arguments(sys.argv[1:])
    schedule = dataclasses.replace(
        Schedule(),
        seed=arguments.seed,
        warmup_steps=arguments.warmup_steps,
        rl_steps=arguments.rl_steps,
    )
    if not arguments.server_binary.is_file():
        print(f"{arguments.server_binary} is not built: run tools/quickstart", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, exit_in_order)
    console = Console()
    work_dir: Path = arguments.work_dir.resolve()
    work_dir.mkdir(parents=True, exist_ok=True)
    model_dir = work_dir / "quickstart-model"
    plot_path = work_dir / "quickstart.png"
    log_path = work_dir / "server.log"

    began = time.monotonic()
    init_model(arguments.server_binary, model_dir, schedule.seed)
    with (
        lockstep.LocalServer(
            arguments.server_binary,
            model_dir,
            flags=server_flags(arguments),
            log_path=log_path,
        ) as server,
        server.client() as client,
    ):
        info = client.info()
        console.print(
            f"serving {info.model.parameter_count:,} parameters at {server.address}:"
            f" {info.weights.numerics_id}, {info.instruction_set},"
            f" {info.config['stages']} stages; log {log_path}",
            highlight=False,
            soft_wrap=True,
        )
        with Display(console, schedule.warmup_steps, schedule.rl_steps) as display:
            outcome = learn(client, schedule, display)
    display.save_plot(plot_path)

    print(
        f"held-out accuracy: {outcome.accuracy_before:.3f} before RL, "
        f"{outcome.accuracy_after:.3f} after"
    )
    print(f"mismatched tokens: {outcome.mismatched_tokens} of {outcome.compared_tokens} compared")
    print(f"weights digest: {outcome.weights_digest}")
    print(f"plot: {plot_path}")
    print(f"time: {time.monotonic() - began:.0f} s")
    defaults = Schedule()
    full = (schedule.warmup_steps, schedule.rl_steps) == (
        defaults.warmup_steps,
        defaults.rl_steps,
    )
    faults = outcome.faults(judge_accuracy=full)
    for fault in faults:
        print(f"FAILED: {fault}", file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
