"""The house rules that neither the compiler nor Bazel can check, as a check of the files' text.

Bazel sees who depends on which of our targets; it does not see includes of /usr/include, calls that end the process, or
arithmetic whose bits are not ours. Every rule here is a function from one file to its breaches; `tests/tools/tidy_test.py`
plants a breach of each.

  tools/tidy            all files that git knows or would add; prints `path:line: message`
  tools/tidy PATH...    these files only
"""

import dataclasses
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath

LINES_MAX = 600

CPP_SUFFIXES = {".h", ".cc", ".cu"}
CODE_SUFFIXES = CPP_SUFFIXES | {".py", ".bzl", ".proto", ".sh"}
PACKAGE_SUFFIXES = CPP_SUFFIXES | {".proto"}

# Who may include the headers of a library: pattern of the header, what it is, path prefixes of those who may. Tests of a
# folder may include what the folder may.
HEADER_OWNERS: list[tuple[str, str, tuple[str, ...]]] = [
    (
        r"(grpc|grpcpp|grpc\+\+)/|.*\.grpc\.pb\.h$",
        "gRPC stops at server/ and client/",
        (
            "server/",
            "client/",
            "tests/integration/",
            "tests/support/",
            "tests/bench/",
            "tests/fuzz/",
        ),
    ),
    (
        r"google/protobuf/|.*\.pb\.h$",
        "Protocol Buffers stop at server/ and client/",
        (
            "server/",
            "client/",
            "tests/integration/",
            "tests/support/",
            "tests/bench/",
            "tests/fuzz/",
        ),
    ),
    (r"nccl\.h$", "NCCL belongs to core/comm/nccl_*", ("core/comm/nccl_",)),
    (r"gloo/", "Gloo belongs to core/comm/gloo_*", ("core/comm/gloo_",)),
    (
        r"cuda|cublas|cub/|thrust/|cooperative_groups",
        "CUDA belongs to kernels/cuda and core/device/cuda_*",
        ("kernels/cuda/", "core/device/cuda_"),
    ),
    (
        r"glog/",
        "logging belongs to server/ and core/engine; below them errors are returned",
        ("server/", "core/engine/"),
    ),
    (r"(gtest|gmock)/", "GoogleTest belongs to tests/", ("tests/",)),
    (r"benchmark/benchmark\.h$", "Google Benchmark belongs to tests/bench/", ("tests/bench/",)),
    (
        r"(cblas|openblas|mkl|dnnl|oneapi/dnnl).*",
        "no vendor BLAS in the invariant path",
        ("tests/bench/",),
    ),
    # core/device: its workers' spin loop pauses the processor.
    (
        r".*intrin\.h$",
        "vector instructions belong to kernels/",
        ("kernels/", "core/device/", "tests/bench/"),
    ),
    (
        r"absl/synchronization/",
        "locks are core/base/mutex.h, which ThreadSanitizer understands",
        (),
    ),
    (r"experimental/|tbb/|omp\.h$", "threads are core/device's worker sets", ()),
]

# Headers that only files with a main function may include.
MAIN_FILE_HEADERS = re.compile(r"gflags/|absl/flags/|csignal$|signal\.h$")
# Parts of a main function in files of their own: they may do what main files do, and only main files include them.
MAIN_PARTS = ("server/stop_signals.",)

# The folders whose headers a folder may include, besides its own. The longest prefix decides; what is not listed (tests,
# tools) is free.
LAYERS: dict[str, tuple[str, ...]] = {
    "kernels": (),
    "core/base": (),
    "core/request": ("core/base",),
    "core/device": ("core/base", "kernels"),
    "core/comm": ("core/base", "core/device"),
    "core/model": ("core/base", "core/request", "core/device", "kernels"),
    "core/pipeline": (
        "core/base",
        "core/request",
        "core/device",
        "core/comm",
        "core/model",
        "kernels",
    ),
    "core/checkpoint": ("core/base", "core/request", "core/device", "core/model", "core/pipeline"),
    "core/generate": (
        "core/base",
        "core/request",
        "core/device",
        "core/model",
        "core/pipeline",
        "kernels",
    ),
    "core/train": (
        "core/base",
        "core/request",
        "core/device",
        "core/model",
        "core/pipeline",
        "kernels",
    ),
    "core/engine": ("core", "kernels"),
    "server": ("core/engine", "core/request", "core/base", "proto"),
    "client": ("proto",),
    "proto": (),
}
OWN_FOLDERS = ("kernels/", "core/", "server/", "client/", "proto/", "tests/", "tools/")

# Folder names that say nothing about what is in them.
NAMELESS_FOLDERS = {"util", "utils", "common", "helper", "helpers", "misc"}

# Calls that no product file makes, main files and core/base/check.h excepted.
PROCESS_CALLS = re.compile(
    r"(?<![\w.>])(?:std::|::)?(exit|_exit|_Exit|quick_exit|abort|terminate|printf|fprintf|vprintf|puts|putchar)\s*\("
    r"|\bstd::(cout|cerr|clog)\b"
)
PROCESS_CALL_OWNERS = ("core/base/check.h",)

# Arithmetic whose bits depend on a library, a compiler or chance (docs/numerics.md), in kernels/ and core/.
FOREIGN_ARITHMETIC: list[tuple[re.Pattern[str], str]] = [
    (
        re.compile(r"\b_mm\d*_(mask\w*_)?(rcp|rsqrt)\w*"),
        "approximate reciprocals differ between processors",
    ),
    (
        re.compile(
            r"(?<![\w.>])(?:std::|::)?"
            r"(exp|exp2|expm1|log|log2|log10|log1p|pow|sin|cos|tan|tanh|erf|cbrt|hypot)f?l?\s*\("
        ),
        "libm's bits are not ours; use the kernels' polynomials or kernels/host_math.h",
    ),
    (re.compile(r"\blong\s+double\b"), "long double has other bits on other machines"),
    (
        re.compile(r"\bstd::atomic\s*<\s*(float|double)\b|\batomicAdd\b"),
        "float atomics add in any order",
    ),
    (
        re.compile(r"\bstd::(reduce|transform_reduce|execution)\b"),
        "the order of the sum is not fixed",
    ),
    (
        re.compile(r"#\s*pragma\s+(omp|GCC\s+optimize|STDC\s+FP_CONTRACT)"),
        "changes the order or the roundings",
    ),
    (
        re.compile(
            r"\bstd::(mt19937\w*|minstd_rand\w*|default_random_engine|\w+_distribution)\b|(?<!\w)rand\s*\("
        ),
        "random numbers are Philox over (seed, sample index, position)",
    ),
]
FAST_MATH_FLAGS = re.compile(
    r"-Ofast|-ffast-math|-funsafe-math\S*|-fassociative-math|-freciprocal-math|-ffp-contract=(?!off)\w+|--use_fast_math"
)

SLEEPS = re.compile(
    r"\b(sleep_for|sleep_until|SleepFor|usleep|nanosleep)\s*\(|(?<![\w.])sleep\s*\(|\btime\.sleep\s*\(|\basyncio\.sleep\s*\("
)

# Written in pieces, so that this file does not break its own rule.
UNFINISHED = re.compile(
    r"\b(" + "|".join(("TO" + "DO", "FIX" + "ME", "XX" + "X", "HA" + "CK")) + r")\b"
)

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')

_NOT_CODE = re.compile(
    r"""
    //[^\n]* | /\*.*?\*/                      # comments
    | R"(?P<delimiter>[^\s()\\]{0,16})\(.*?\)(?P=delimiter)"
    | "(?:\\.|[^"\\\n])*"
    | (?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'     # but not the separators inside 1'000'000
    """,
    re.DOTALL | re.VERBOSE,
)


@dataclasses.dataclass(frozen=True)
class Breach:
    """One broken rule. `line` is 0 where the file as a whole breaks it."""

    path: PurePosixPath
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.message}"


class SourceFile:
    """A file of the repository: its path from the root, its text, and for C++ the text without comments and strings."""

    def __init__(self, root: Path, path: PurePosixPath) -> None:
        self.root = root
        self.path = path
        self.text = (root / path).read_text(errors="replace")
        self.lines = self.text.splitlines()
        self.is_cpp = path.suffix in CPP_SUFFIXES
        self.is_main = self.is_cpp and (path.stem == "main" or path.stem.endswith("_main"))
        self.code = (
            blank_comments_and_strings(self.text).splitlines() if self.is_cpp else self.lines
        )

    def is_under(self, *prefixes: str) -> bool:
        return str(self.path).startswith(prefixes)

    def includes(self) -> Iterator[tuple[int, str, str]]:
        """Line, opening bracket and header of each include."""
        for number, line in enumerate(self.lines, 1):
            if match := INCLUDE.match(line):
                yield number, match[1], match[2]

    def breach(self, line: int, message: str) -> Breach:
        return Breach(self.path, line, message)

    def search(self, pattern: re.Pattern[str], message: str) -> Iterator[Breach]:
        """A breach for each line of code that matches."""
        for number, line in enumerate(self.code, 1):
            if match := pattern.search(line):
                yield self.breach(number, f"{match[0].strip()}: {message}")


def blank_comments_and_strings(text: str) -> str:
    """The same lines with comments, strings and characters turned into spaces."""

    def blank(match: re.Match[str]) -> str:
        return re.sub(r"[^\n]", " ", match[0])

    return _NOT_CODE.sub(blank, text)


def check_header_owners(file: SourceFile) -> Iterator[Breach]:
    if not file.is_cpp:
        return
    for line, _, header in file.includes():
        for pattern, message, owners in HEADER_OWNERS:
            allowed = owners + tuple("tests/" + owner for owner in owners)
            if re.match(pattern, header) and not file.is_under(*allowed):
                yield file.breach(line, f"includes {header}: {message}")
        privileged = file.is_main or file.is_under("tests/", *MAIN_PARTS)
        if MAIN_FILE_HEADERS.match(header) and not privileged:
            yield file.breach(
                line, f"includes {header}: only main files read flags or handle signals"
            )
        if header.startswith(MAIN_PARTS) and not privileged:
            yield file.breach(line, f"includes {header}: it is a part of main files")


def check_layers(file: SourceFile) -> Iterator[Breach]:
    if not file.is_cpp:
        return
    folder = next(
        (name for name in sorted(LAYERS, key=len, reverse=True) if file.is_under(name + "/")), None
    )
    if folder is None:
        if file.is_under("core/"):
            yield file.breach(0, "a new folder of core/: say in tools/tidy.py what it may include")
        return
    for line, bracket, header in file.includes():
        own = bracket == '"' and header.startswith(OWN_FOLDERS)
        allowed = tuple(name + "/" for name in (folder, *LAYERS[folder]))
        if own and not header.startswith(allowed):
            yield file.breach(
                line, f"includes {header}: {folder} does not see it (docs/architecture.md)"
            )


def check_include_style(file: SourceFile) -> Iterator[Breach]:
    if not file.is_cpp:
        return
    includes = list(file.includes())
    for line, bracket, header in includes:
        if bracket == '"' and ("/" not in header or ".." in header):
            yield file.breach(line, f"includes {header}: name it from the repository's root")
    own_header = str(file.path.with_suffix(".h"))
    first = includes[0][2] if includes else None
    if file.path.suffix == ".cc" and (file.root / own_header).exists() and first != own_header:
        yield file.breach(
            includes[0][0] if includes else 0, f"the first include must be {own_header}"
        )


def check_include_guard(file: SourceFile) -> Iterator[Breach]:
    if file.path.suffix != ".h":
        return
    guard = "LOCKSTEP_" + re.sub(r"[^A-Z0-9]", "_", str(file.path).upper()) + "_"
    if f"#ifndef {guard}\n#define {guard}\n" not in file.text:
        yield file.breach(0, f"the include guard must be {guard}")


def check_process_calls(file: SourceFile) -> Iterator[Breach]:
    if (
        not file.is_cpp
        or file.is_main
        or not file.is_under("core/", "kernels/", "server/", "client/")
    ):
        return
    if not file.is_under(*PROCESS_CALL_OWNERS):
        yield from file.search(PROCESS_CALLS, "only main files end the process or print")


def check_main_files(file: SourceFile) -> Iterator[Breach]:
    if file.is_cpp and not file.is_main and not file.is_under("tests/"):
        yield from file.search(
            re.compile(r"^\s*int\s+main\s*\("), "a main file is called main.cc or *_main.cc"
        )


def check_exceptions(file: SourceFile) -> Iterator[Breach]:
    if file.is_cpp and file.is_under("core/", "kernels/", "server/", "client/"):
        yield from file.search(re.compile(r"\bthrow\b(?!\s*\(\s*\))"), "errors are absl::Status")


def check_locks(file: SourceFile) -> Iterator[Breach]:
    if file.is_under("core/", "server/") and not file.is_under("core/base/mutex."):
        yield from file.search(
            re.compile(
                r"\bstd::(\w*mutex|condition_variable\w*|lock_guard|unique_lock|scoped_lock)\b"
            ),
            "locks are core/base/mutex.h, whose annotations clang checks",
        )


def check_arithmetic(file: SourceFile) -> Iterator[Breach]:
    if file.is_cpp and file.is_under("core/", "kernels/"):
        for pattern, message in FOREIGN_ARITHMETIC:
            yield from file.search(pattern, message)


def check_build_flags(file: SourceFile) -> Iterator[Breach]:
    if file.path.name in ("BUILD.bazel", ".bazelrc", "WORKSPACE") or file.path.suffix == ".bzl":
        for number, line in enumerate(file.lines, 1):
            if match := FAST_MATH_FLAGS.search(line.split("#")[0]):
                yield file.breach(
                    number, f"{match[0]}: changes the order or the roundings of the arithmetic"
                )


def check_sleeps(file: SourceFile) -> Iterator[Breach]:
    # This rule's own test has to write what it forbids.
    if (
        file.is_under("tests/")
        and (file.is_cpp or file.path.suffix == ".py")
        and file.path.name != "tidy_test.py"
    ):
        yield from file.search(SLEEPS, "tests wait for events, not for time")


def check_size(file: SourceFile) -> Iterator[Breach]:
    if file.path.suffix in CODE_SUFFIXES and len(file.lines) > LINES_MAX:
        yield file.breach(0, f"{len(file.lines)} lines; at most {LINES_MAX}")


def check_folder_names(file: SourceFile) -> Iterator[Breach]:
    for folder in file.path.parts[:-1]:
        if folder in NAMELESS_FOLDERS:
            yield file.breach(0, f"folder {folder}/: name it after what is in it")


def check_package(file: SourceFile) -> Iterator[Breach]:
    if file.path.suffix not in PACKAGE_SUFFIXES:
        return
    build = file.root / file.path.parent / "BUILD.bazel"
    if not build.exists():
        yield file.breach(0, "its folder has no BUILD.bazel")
    elif not re.search(rf'"{re.escape(file.path.stem)}(\.\w+)?"|\bglob\(', build.read_text()):
        # A test that no target names would never run, and nobody would notice.
        yield file.breach(0, "no target of its BUILD.bazel names it")


def check_finished(file: SourceFile) -> Iterator[Breach]:
    if file.path.suffix in CODE_SUFFIXES or file.path.name == "BUILD.bazel":
        for number, line in enumerate(file.lines, 1):
            if match := UNFINISHED.search(line):
                yield file.breach(number, f"{match[0]}: finish it or file an issue")


RULES: list[Callable[[SourceFile], Iterator[Breach]]] = [
    check_header_owners,
    check_layers,
    check_include_style,
    check_include_guard,
    check_process_calls,
    check_main_files,
    check_exceptions,
    check_locks,
    check_arithmetic,
    check_build_flags,
    check_sleeps,
    check_size,
    check_folder_names,
    check_package,
    check_finished,
]


def is_text(path: Path) -> bool:
    with path.open("rb") as file:
        return b"\0" not in file.read(4096)


def check(root: Path, paths: list[PurePosixPath]) -> list[Breach]:
    """The breaches of the files `paths` (relative to `root`), in the order of the files and lines."""
    breaches = []
    for path in sorted(paths):
        if (root / path).is_file() and is_text(root / path):
            file = SourceFile(root, path)
            found = [breach for rule in RULES for breach in rule(file)]
            breaches += sorted(found, key=lambda breach: breach.line)
    return breaches


def repository_files(root: Path) -> list[PurePosixPath]:
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=root,
        check=True,
        capture_output=True,
        text=True,
    )
    return [PurePosixPath(name) for name in listing.stdout.split("\0") if name]


def main() -> int:
    root = Path(__file__).resolve().parent.parent
    paths = [PurePosixPath(argument) for argument in sys.argv[1:]] or repository_files(root)
    breaches = check(root, paths)
    for breach in breaches:
        print(breach)
    print(f"tidy: {len(paths)} files, {len(breaches)} breaches")
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main())
