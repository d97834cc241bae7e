"""The loop of a side's process: one unit of work at a time, when told.

Requests are JSON lines on stdin, {"unit": name, "arguments": {...}}; each is answered by one JSON
line on the file descriptor that the process was given, {"value": ...} or {"error": text}. stdin's
end ends the process. Between units it waits in a read, which costs no processor.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable, Mapping
from typing import Any

Unit = Callable[..., Any]


def serve(units: Mapping[str, Unit], answers_fd: int) -> None:
    """Says {"value": "ready"} and then answers until stdin ends."""
    with os.fdopen(answers_fd, "w", buffering=1) as answers:
        answers.write(json.dumps({"value": "ready"}) + "\n")
        for line in sys.stdin:
            answers.write(json.dumps(_answer(units, json.loads(line))) + "\n")


def _answer(units: Mapping[str, Unit], request: dict[str, Any]) -> dict[str, Any]:
    try:
        return {"value": units[request["unit"]](**request["arguments"])}
    except Exception as error:  # noqa: BLE001
        # The other side of the pipe reports it; the log has all of it.
        traceback.print_exc()
        return {"error": f"{type(error).__name__}: {error}"}
