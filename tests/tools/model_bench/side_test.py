"""Goal: a side does what it is told, tells what went wrong, and ends. Method: the worker's loop over pipes, a process
that ends at once, and a made-up /proc.
"""

import io
import json
import os
import sys
from pathlib import Path

import pytest
from model_bench.side import Side, SideError, SideProgram, processor_seconds
from model_bench.worker import serve


def test_worker_answers_each_request(monkeypatch: pytest.MonkeyPatch) -> None:
    def divide(a: int, b: int) -> float:
        return a / b

    requests = [{"unit": "divide", "arguments": {"a": 6, "b": b}} for b in (3, 0)]
    text = "".join(json.dumps(request) + "\n" for request in requests)
    monkeypatch.setattr(sys, "stdin", io.StringIO(text))
    read_fd, write_fd = os.pipe()
    serve({"divide": divide}, write_fd)
    with os.fdopen(read_fd) as answers:
        lines = [json.loads(line) for line in answers]
    assert lines == [
        {"value": "ready"},
        {"value": 2.0},
        {"error": "ZeroDivisionError: division by zero"},
    ]


def test_a_side_that_ends_shows_its_log(tmp_path: Path) -> None:
    program = SideProgram("nobody", Path(sys.executable), "no_such_module", [], {})
    with (
        pytest.raises(SideError, match=r"nobody ended:\n.*no_such_module"),
        Side(program, tmp_path / "log"),
    ):
        pass


def write_stat(proc: Path, pid: int, parent: int, user: int, system: int) -> None:
    """As in proc(5): the name may hold spaces and parentheses."""
    (proc / str(pid)).mkdir(parents=True)
    fields = ["S", str(parent), *["0"] * 9, str(user), str(system), *["0"] * 30]
    (proc / str(pid) / "stat").write_text(f"{pid} (a) name) {' '.join(fields)}\n")


def test_processor_time_is_of_the_whole_family(tmp_path: Path) -> None:
    write_stat(tmp_path, 10, parent=1, user=100, system=20)
    write_stat(tmp_path, 11, parent=10, user=1000, system=0)
    write_stat(tmp_path, 12, parent=11, user=3, system=4)
    write_stat(tmp_path, 13, parent=1, user=9999, system=9999)
    (tmp_path / "self").mkdir()

    ticks = processor_seconds(10, tmp_path) * os.sysconf("SC_CLK_TCK")
    assert ticks == pytest.approx(1127)
