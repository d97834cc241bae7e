#!/usr/bin/env python3
"""Measures Lockstep beside llama.cpp and PyTorch on a whole model: same weights, same threads, in interleaved pairs.

tools/bench builds the server, installs the peers and calls this. Each side is a process that stays
warm and does one unit of work at a time, in the order ours, peer, ours again.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

import hf_to_gguf
import lockstep
from model_bench.limits import MachinePeak, ModelShape, measure_machine_peak
from model_bench.pairs import Pair
from model_bench.rows import ROWS, Row, rows_by_name
from model_bench.same_model import GREEDY_TOKENS, QUESTIONS, Agreement, same_tokens
from model_bench.side import SideError
from model_bench.sides import Installation, Sides
from model_bench.table import MeasuredRow, Report

REPOSITORY_ROOT = Path(__file__).resolve().parent.parent
BINARIES = REPOSITORY_ROOT / "bazel-bin"
# What design and decisions ask of a row; fewer are for trying things out.
PAIRS_DEFAULT = 11


def whole_number(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 on")
    return int(text)


def rows_argument(text: str) -> list[Row]:
    try:
        return rows_by_name(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def file_to_write(text: str) -> Path:
    """Checked before the work and not after it."""
    path = Path(text)
    if path.is_dir() or not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"{text!r} is not a file in an existing folder")
    return path


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lockstep"
    parser = argparse.ArgumentParser(
        prog="tools/bench",
        description=__doc__,
        epilog="rows: " + ", ".join(row.name for row in ROWS),
    )
    parser.add_argument(
        "--rows", type=rows_argument, default=list(ROWS), help="comma-separated (default: all)"
    )
    parser.add_argument(
        "--pairs",
        type=whole_number,
        default=PAIRS_DEFAULT,
        help="of each row (default: %(default)s)",
    )
    parser.add_argument(
        "--threads",
        type=whole_number,
        default=len(os.sched_getaffinity(0)),
        help="of every side (default: one a core, here %(default)s)",
    )
    parser.add_argument("--json", type=file_to_write, help="file to write all numbers to")
    parser.add_argument("--markdown", type=file_to_write, help="file to write the table to")
    parser.add_argument(
        "--model",
        type=Path,
        default=cache / "smollm2-135m-instruct",
        help="Hugging Face directory (default: %(default)s)",
    )
    parser.add_argument(
        "--peer-python",
        type=Path,
        default=cache / "bench-venv" / "bin" / "python",
        help="Python with the peers (default: %(default)s)",
    )
    parser.add_argument(
        "--work-dir",
        type=Path,
        default=cache / "bench",
        help="GGUF file and logs go here (default: %(default)s)",
    )
    parser.add_argument(
        "--server-binary",
        type=Path,
        default=BINARIES / "server" / "lockstep_server",
        help="lockstep_server (default: %(default)s)",
    )
    return parser.parse_args(arguments)


def say(text: str) -> None:
    """Progress, apart from the table on stdout."""
    print(text, file=sys.stderr, flush=True)


def gguf_of(model: Path, work_dir: Path) -> Path:
    """The bf16 GGUF file of a directory's weights; written anew when they are newer."""
    path = work_dir / f"{model.name}-bf16.gguf"
    weights = model / "model.safetensors"
    if not path.is_file() or path.stat().st_mtime < weights.stat().st_mtime:
        say(f"writing {path}")
        hf_to_gguf.convert(model, path)
    return path


def machine_name() -> str:
    """The CPU's name and its cores."""
    text = Path("/proc/cpuinfo").read_text()
    names = [line.partition(":")[2].strip() for line in text.splitlines() if "model name" in line]
    return f"{names[0] if names else 'unknown CPU'}, {os.cpu_count()} cores"


def commit_name() -> str:
    """What git says of the sources; "unknown" without git."""
    answer = subprocess.run(
        ["git", "describe", "--always", "--dirty"],
        check=False,
        cwd=REPOSITORY_ROOT,
        capture_output=True,
        text=True,
    )
    return answer.stdout.strip() or "unknown"


class Bench:
    """One run: its sides, and what it found out so far."""

    def __init__(self, arguments: argparse.Namespace, sides: Sides) -> None:
        self._threads: int = arguments.threads
        self._pairs: int = arguments.pairs
        self._model: Path = arguments.model
        self._sides = sides
        config = json.loads((self._model / "config.json").read_text())
        self._shape = ModelShape.from_config(config)
        self._descriptions: dict[str, str] = {}
        self._agreements: dict[tuple[str, str], Agreement] = {}
        self._peaks: list[MachinePeak] = []
        self._rows: list[MeasuredRow] = []

    def report(self) -> Report:
        return Report(
            machine=machine_name(),
            threads=self._threads,
            commit=commit_name(),
            sides=self._descriptions,
            agreements=list(self._agreements.values()),
            peaks=self._peaks,
            idle_share=self._sides.idle_share,
            rows=self._rows,
        )

    def check_same_model(self, rows: Sequence[Row]) -> None:
        """Before anything is trained: later the weights differ."""
        codec = lockstep.TextCodec.from_directory(self._model)
        prompts = [
            codec.encode_chat([{"role": "user", "content": question}]).tolist()
            for question in QUESTIONS
        ]
        picked: dict[str, list[list[int]]] = {}
        for ours, peer in dict.fromkeys((row.ours, row.peer) for row in rows):
            for name in (ours, peer):
                if name not in picked:
                    picked[name] = [
                        self._sides.call(name, "greedy", prompt=prompt, tokens=GREEDY_TOKENS)
                        for prompt in prompts
                    ]
                    self._descriptions[name] = self._sides.call(name, "describe")
            same = sum(map(same_tokens, picked[ours], picked[peer]))
            agreement = Agreement(ours, peer, same, GREEDY_TOKENS * len(QUESTIONS))
            self._agreements[ours, peer] = agreement
            say(str(agreement))

    def measure(self, row: Row) -> MeasuredRow:
        """The row's pairs, after one unit of each side that does not count."""
        self._sides.keep_only({row.ours, row.peer})
        for name in (row.ours, row.peer):
            self._sides.rate(name, row.unit, row.sizes)
        measured = MeasuredRow(row, [])
        self._rows.append(measured)
        for index in range(self._pairs):
            pair = self._measure_pair(row)
            measured.pairs.append(pair)
            say(
                f"{row.name} {index + 1}/{self._pairs}: ours {pair.ours:.1f},"
                f" {row.peer} {pair.peer:.1f}, ours {pair.ours_again:.1f} tok/s"
            )
        return measured

    def _measure_pair(self, row: Row) -> Pair:
        ours = self._sides.rate(row.ours, row.unit, row.sizes)
        peer = self._sides.rate(row.peer, row.unit, row.sizes)
        ours_again = self._sides.rate(row.ours, row.unit, row.sizes)
        limit = None
        if row.work is not None:
            work = row.work(self._shape)
            limit = work.tokens_per_second_max(self._measure_peak(), row.profile)
        return Pair(ours, peer, ours_again, limit)

    def _measure_peak(self) -> MachinePeak:
        binary = BINARIES / "tests" / "bench" / "print_machine_peak"
        # A buffer of the size of the bf16 weights meets the caches as they do.
        peak = measure_machine_peak(binary, self._threads, 2 * self._shape.parameters)
        self._peaks.append(peak)
        return peak


def write(report: Report, arguments: argparse.Namespace) -> None:
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(report.to_json(), indent=1) + "\n")
    if arguments.markdown is not None:
        arguments.markdown.write_text(report.to_markdown())


def exit_in_order(number: int, frame: FrameType | None) -> None:
    """SIGTERM as an exception, so that `with` blocks end the sides."""
    sys.exit(128 + number)


def main() -> int:
    arguments = parse_arguments(sys.argv[1:])
    signal.signal(signal.SIGTERM, exit_in_order)
    began = time.monotonic()
    arguments.work_dir.mkdir(parents=True, exist_ok=True)
    installation = Installation(
        server_binary=arguments.server_binary,
        model=arguments.model,
        gguf=gguf_of(arguments.model, arguments.work_dir),
        python=Path(sys.executable),
        peer_python=arguments.peer_python,
        log_directory=arguments.work_dir,
        threads=arguments.threads,
    )
    try:
        with Sides(installation) as sides:
            bench = Bench(arguments, sides)
            bench.check_same_model(arguments.rows)
            for row in arguments.rows:
                bench.measure(row)
                # After each row: a run that is interrupted keeps what it measured.
                write(bench.report(), arguments)
    except (SideError, OSError, subprocess.CalledProcessError) as error:
        print(f"tools/bench: {error}", file=sys.stderr)
        return 2
    report = bench.report()
    print(report.to_markdown())
    say(f"time: {(time.monotonic() - began) / 60:.1f} min")
    if not all(agreement.is_same_model for agreement in report.agreements):
        print("FAILED: a side does not run the same model", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
