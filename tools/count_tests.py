"""Counts test cases from what the test runners wrote, names the skipped and the failed, and prints the totals last.

Bazel's build events name every test target of one invocation and its test.xml files, so results of earlier runs that lie
around are not counted. A target that did not build, timed out or died is one failure. The exit status is 0 only if at least
one case passed, none failed and every given results file could be read.
"""

import argparse
import dataclasses
import json
import sys
from pathlib import Path
from urllib.parse import unquote, urlparse
from xml.etree import ElementTree


@dataclasses.dataclass
class Counts:
    """Test cases by outcome; failed and skipped ones by name."""

    passed: int = 0
    failed: list[str] = dataclasses.field(default_factory=list)
    skipped: list[str] = dataclasses.field(default_factory=list)

    def add(self, other: "Counts") -> None:
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped


def count_junit(path: Path, prefix: str = "") -> Counts:
    """Counts the <testcase> elements of a JUnit file as GoogleTest, pytest and Bazel write it."""
    counts = Counts()
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        name = prefix + ".".join(filter(None, [case.get("classname"), case.get("name")]))
        if case.find("failure") is not None or case.find("error") is not None:
            counts.failed.append(name)
        elif (
            case.find("skipped") is not None
            or case.get("status") == "notrun"
            or case.get("result") in ("skipped", "suppressed")
        ):
            counts.skipped.append(name)
        else:
            counts.passed += 1
    return counts


def count_bazel(path: Path) -> Counts:
    """Counts the test cases of one `bazel test` from its file of build events, one JSON object a line."""
    counts = Counts()
    finished = False
    for line in path.read_text().splitlines():
        event = json.loads(line)
        event_id = event["id"]
        if "testResult" in event:
            label = event_id["testResult"]["label"]
            counts.add(_count_test_result(label, event["testResult"]))
        elif "targetCompleted" in event_id and not event.get("completed", {}).get("success"):
            counts.failed.append(f"{event_id['targetCompleted']['label']} (does not build)")
        elif "unconfiguredLabel" in event_id or ("pattern" in event_id and "aborted" in event):
            counts.failed.append(
                f"{_label(event_id)} ({event['aborted'].get('reason', 'not loaded')})"
            )
        elif "buildFinished" in event_id:
            finished = True
            code = event["finished"].get("exitCode", {})
            # 0: all is well; 3: tests failed and 4: no tests, which the counts say.
            if code.get("code", 0) not in (0, 3, 4) and not counts.failed:
                counts.failed.append(f"bazel test: {code.get('name')}")
    if not finished:
        counts.failed.append("bazel test did not finish")
    return counts


def _count_test_result(label: str, result: dict) -> Counts:
    counts = Counts()
    for output in result.get("testActionOutput", []):
        if output["name"] == "test.xml":
            xml = Path(unquote(urlparse(output["uri"]).path))
            if xml.exists():
                counts = count_junit(xml, prefix=label + " ")
    # A crash or a time limit can leave a file in which no case failed, or none.
    if result["status"] != "PASSED" and not counts.failed:
        counts.failed.append(f"{label} ({result['status'].lower()})")
    if result["status"] == "PASSED" and not (counts.passed or counts.skipped):
        counts.failed.append(f"{label} (passed without a test case)")
    return counts


def _label(event_id: dict) -> str:
    """The target or the pattern that an event is about."""
    about = next(iter(event_id.values()))
    return about.get("label") or " ".join(about.get("pattern", []))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bazel", type=Path, action="append", default=[])
    parser.add_argument("--pytest", type=Path, action="append", default=[])
    arguments = parser.parse_args()

    total = Counts()
    for count, paths in ((count_bazel, arguments.bazel), (count_junit, arguments.pytest)):
        for path in paths:
            try:
                total.add(count(path))
            except (OSError, ValueError, ElementTree.ParseError) as error:
                total.failed.append(f"results unreadable: {path.name}: {error}")

    for name in total.skipped:
        print(f"skipped: {name}")
    for name in total.failed:
        print(f"FAILED: {name}")
    print(f"{total.passed} passed, {len(total.failed)} failed")
    return 0 if total.passed and not total.failed else 1


if __name__ == "__main__":
    sys.exit(main())
