"""Generates the gRPC stubs before setuptools collects modules; the rest is in pyproject.toml."""

import sys
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

sys.path.insert(0, str(Path(__file__).resolve().parent))
from generate_stubs import generate_stubs


class BuildPyWithStubs(build_py):
    """build_py, after writing the stubs beside the sources, where editable installs use them."""

    def run(self) -> None:
        generate_stubs()
        super().run()


setup(cmdclass={"build_py": BuildPyWithStubs})
