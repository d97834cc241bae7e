"""Goal: the totals are what happened in this run, and whatever went wrong is counted as a failure. Method: small files as
GoogleTest, pytest and Bazel write them.
"""

import json
import subprocess
import sys
from pathlib import Path

import count_tests

SCRIPT = Path(count_tests.__file__)

GOOGLETEST = """\
<testsuites tests="4" failures="1" disabled="1">
  <testsuite name="A">
    <testcase name="Passes" status="run" result="completed" classname="A" />
    <testcase name="Fails" status="run" result="completed" classname="A"><failure message="1 != 2" /></testcase>
    <testcase name="Skips" status="run" result="skipped" classname="A"><skipped message="" /></testcase>
    <testcase name="DISABLED_Off" status="notrun" result="suppressed" classname="A" />
  </testsuite>
</testsuites>"""
ALL_PASS = '<testsuites><testsuite name="A"><testcase name="Passes" classname="A" status="run" /></testsuite></testsuites>'
PYTEST = """\
<testsuites><testsuite name="pytest" tests="3">
  <testcase classname="tests.a_test" name="test_one" />
  <testcase classname="tests.a_test" name="test_two"><skipped type="pytest.skip" message="no server" /></testcase>
  <testcase classname="tests.a_test" name="test_three"><error message="fixture" /></testcase>
</testsuite></testsuites>"""


class Events:
    """Writes a file of Bazel build events."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "events.json"
        self.events: list[dict] = []

    def test(self, label: str, status: str, xml: str | None) -> None:
        outputs = []
        if xml is not None:
            file = self.folder / f"{len(self.events)} test.xml"
            file.write_text(xml)
            outputs.append({"name": "test.xml", "uri": file.as_uri()})
        self.events.append(
            {
                "id": {"testResult": {"label": label}},
                "testResult": {"status": status, "testActionOutput": outputs},
            }
        )

    def built(self, label: str, success: bool) -> None:
        completed = {"success": True} if success else {}
        self.events.append({"id": {"targetCompleted": {"label": label}}, "completed": completed})

    def finish(self, code: int = 0, name: str = "SUCCESS") -> None:
        self.events.append(
            {"id": {"buildFinished": {}}, "finished": {"exitCode": {"code": code, "name": name}}}
        )

    def count(self) -> count_tests.Counts:
        self.path.write_text("\n".join(json.dumps(event) for event in self.events) + "\n")
        return count_tests.count_bazel(self.path)


def test_googletest_cases_by_outcome(tmp_path: Path) -> None:
    events = Events(tmp_path)
    events.test("//a:a_test", "FAILED", GOOGLETEST)
    events.finish(3, "TESTS_FAILED")
    counts = events.count()
    assert counts.passed == 1
    assert counts.failed == ["//a:a_test A.Fails"]
    assert counts.skipped == ["//a:a_test A.Skips", "//a:a_test A.DISABLED_Off"]


def test_crash_or_time_limit_is_a_failure(tmp_path: Path) -> None:
    events = Events(tmp_path)
    events.test("//a:crash_test", "FAILED", ALL_PASS)
    events.test("//a:slow_test", "TIMEOUT", None)
    events.finish(3, "TESTS_FAILED")
    assert events.count().failed == ["//a:crash_test (failed)", "//a:slow_test (timeout)"]


def test_pass_without_a_case_is_a_failure(tmp_path: Path) -> None:
    events = Events(tmp_path)
    events.test("//a:empty_test", "PASSED", "<testsuites></testsuites>")
    events.finish()
    assert events.count().failed == ["//a:empty_test (passed without a test case)"]


def test_target_that_does_not_build_is_a_failure(tmp_path: Path) -> None:
    events = Events(tmp_path)
    events.built("//a:a", success=True)
    events.built("//a:a_test", success=False)
    events.finish(1, "BUILD_FAILURE")
    assert events.count().failed == ["//a:a_test (does not build)"]


def test_target_or_pattern_that_does_not_load_is_a_failure(tmp_path: Path) -> None:
    events = Events(tmp_path)
    events.events.append({"id": {"unconfiguredLabel": {"label": "//a:a"}}, "aborted": {}})
    events.events.append(
        {"id": {"pattern": {"pattern": ["//b/..."]}}, "aborted": {"reason": "LOADING_FAILURE"}}
    )
    events.finish(1, "BUILD_FAILURE")
    assert events.count().failed == ["//a:a (not loaded)", "//b/... (LOADING_FAILURE)"]


def test_run_that_ended_early_is_a_failure(tmp_path: Path) -> None:
    events = Events(tmp_path)
    events.test("//a:a_test", "PASSED", ALL_PASS)
    assert events.count().failed == ["bazel test did not finish"]
    events.finish(2, "COMMAND_LINE_ERROR")
    assert events.count().failed == ["bazel test: COMMAND_LINE_ERROR"]


def test_pytest_cases_by_outcome(tmp_path: Path) -> None:
    file = tmp_path / "pytest.xml"
    file.write_text(PYTEST)
    counts = count_tests.count_junit(file)
    assert counts.passed == 1
    assert counts.failed == ["tests.a_test.test_three"]
    assert counts.skipped == ["tests.a_test.test_two"]


def run_script(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(SCRIPT), *arguments], capture_output=True, text=True, check=False
    )


def test_last_line_and_exit_status(tmp_path: Path) -> None:
    good = tmp_path / "good.xml"
    good.write_text(ALL_PASS)
    bad = tmp_path / "bad.xml"
    bad.write_text(PYTEST)
    passed = run_script("--pytest", str(good))
    assert (passed.returncode, passed.stdout) == (0, "1 passed, 0 failed\n")
    failed = run_script("--pytest", str(good), "--pytest", str(bad))
    assert failed.returncode == 1
    assert failed.stdout.splitlines() == [
        "skipped: tests.a_test.test_two",
        "FAILED: tests.a_test.test_three",
        "2 passed, 1 failed",
    ]


def test_missing_results_or_nothing_run_fails(tmp_path: Path) -> None:
    missing = run_script("--bazel", str(tmp_path / "none.json"))
    assert missing.returncode == 1
    assert missing.stdout.splitlines()[-1] == "0 passed, 1 failed"
    assert run_script().returncode == 1
