#!/usr/bin/env python3
"""Writes lockstep/wire/*_pb2*.py and .pyi from proto/lockstep/v1, by grpcio-tools.

Runs by itself (python client/python/generate_stubs.py) and as a step of every build of the
package. The .proto files import each other by their path from the repository's root, so protoc
writes imports of a top-level package `proto`; those are turned into imports of lockstep.wire, or
they would take a name that other distributions use.
"""

import re
import tempfile
from importlib.resources import files
from pathlib import Path

PACKAGE_ROOT = Path(__file__).resolve().parent
REPOSITORY_ROOT = PACKAGE_ROOT.parent.parent
PROTO_DIRECTORY = Path("proto/lockstep/v1")
WIRE_DIRECTORY = PACKAGE_ROOT / "lockstep" / "wire"

_PROTO_IMPORT = re.compile(r"^from proto\.lockstep\.v1 import ", re.MULTILINE)


def generate_stubs() -> list[Path]:
    """Writes the stubs and returns their paths; RuntimeError when protoc refuses a file."""
    from grpc_tools import protoc

    sources = sorted((REPOSITORY_ROOT / PROTO_DIRECTORY).glob("*.proto"))
    if not sources:
        raise RuntimeError(f"no .proto files in {REPOSITORY_ROOT / PROTO_DIRECTORY}")
    with tempfile.TemporaryDirectory() as output:
        arguments = [
            "protoc",
            f"-I{REPOSITORY_ROOT}",
            f"-I{files('grpc_tools') / '_proto'}",
            f"--python_out={output}",
            f"--pyi_out={output}",
            f"--grpc_python_out={output}",
            *(str(PROTO_DIRECTORY / source.name) for source in sources),
        ]
        if protoc.main(arguments) != 0:
            raise RuntimeError("protoc failed; its message is above")
        return [_install(stub) for stub in sorted((Path(output) / PROTO_DIRECTORY).iterdir())]


def _install(stub: Path) -> Path:
    target = WIRE_DIRECTORY / stub.name
    text = _PROTO_IMPORT.sub("from lockstep.wire import ", stub.read_text())
    # A file that has not changed keeps its time stamp, for those who watch it.
    if not target.exists() or target.read_text() != text:
        target.write_text(text)
    return target


if __name__ == "__main__":
    for path in generate_stubs():
        print(path.relative_to(REPOSITORY_ROOT))
