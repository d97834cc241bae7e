"""Goal: every house rule catches what it forbids, and only that. Method: a planted breach of each rule in a small tree,
beside the nearest legal neighbour; and the repository itself must be clean.
"""

from pathlib import Path, PurePosixPath

import pytest
import tidy


def breaches_of(root: Path, path: str, text: str) -> list[str]:
    """What tidy says of one file, which is a member of a package and has its guard unless the text says otherwise."""
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    if file.name != "BUILD.bazel":
        (file.parent / "BUILD.bazel").write_text(
            f'cc_library(name = "{file.stem}", srcs = ["{file.name}"])\n'
        )
    return [breach.message for breach in tidy.check(root, [PurePosixPath(path)])]


PLANTED = [
    # path, text, a word of the expected message
    ("core/engine/a.cc", "#include <grpcpp/grpcpp.h>\n", "gRPC stops at server/"),
    ("kernels/cpu/a.cc", '#include "google/protobuf/message.h"\n', "Protocol Buffers"),
    ("core/request/a.cc", '#include "proto/lockstep/v1/generate.pb.h"\n', "Protocol Buffers"),
    ("core/comm/loopback.cc", "#include <nccl.h>\n", "NCCL belongs"),
    ("core/comm/loopback.cc", "#include <gloo/context.h>\n", "Gloo belongs"),
    ("core/device/host.cc", "#include <cuda_runtime.h>\n", "CUDA belongs"),
    ("core/model/a.cc", "#include <glog/logging.h>\n", "logging belongs"),
    ("core/model/a.cc", "#include <gtest/gtest.h>\n", "GoogleTest"),
    ("tests/core/a.cc", "#include <benchmark/benchmark.h>\n", "Google Benchmark"),
    ("kernels/cpu/a.cc", "#include <cblas.h>\n", "vendor BLAS"),
    ("core/model/a.cc", "#include <immintrin.h>\n", "vector instructions"),
    ("server/a.cc", '#include "absl/synchronization/mutex.h"\n', "ThreadSanitizer"),
    ("server/a.cc", "#include <gflags/gflags.h>\n", "only main files read flags"),
    ("core/engine/a.cc", "#include <csignal>\n", "only main files read flags"),
    ("server/a.cc", '#include "server/stop_signals.h"\n', "it is a part of main files"),
    ("kernels/cpu/a.cc", '#include "core/base/check.h"\n', "kernels does not see it"),
    ("core/model/a.cc", '#include "core/pipeline/schedule.h"\n', "core/model does not see it"),
    ("core/generate/a.cc", '#include "core/train/step.h"\n', "core/generate does not see it"),
    ("core/train/a.cc", '#include "core/generate/sampler.h"\n', "core/train does not see it"),
    ("core/engine/a.cc", '#include "server/service.h"\n', "core/engine does not see it"),
    ("server/a.cc", '#include "core/model/forward.h"\n', "server does not see it"),
    ("client/cpp/a.cc", '#include "core/base/check.h"\n', "client does not see it"),
    ("core/novel/a.cc", "int x;\n", "a new folder of core/"),
    ("core/model/a.cc", '#include "forward.h"\n', "from the repository's root"),
    ("core/model/a.cc", '#include "../base/check.h"\n', "from the repository's root"),
    ("core/model/a.h", "#ifndef A_H\n#define A_H\n#endif\n", "LOCKSTEP_CORE_MODEL_A_H_"),
    ("core/model/a.cc", "void F() { std::exit(1); }\n", "only main files end the process"),
    ("kernels/cpu/a.cc", "void F() { abort(); }\n", "only main files end the process"),
    ("server/a.cc", 'void F() { printf("x"); }\n', "only main files end the process or print"),
    (
        "client/cpp/a.cc",
        "void F() { std::cout << 1; }\n",
        "only main files end the process or print",
    ),
    ("server/a.cc", "int main() {}\n", "a main file is called"),
    ("core/model/a.cc", "void F() { throw 1; }\n", "absl::Status"),
    ("core/engine/a.cc", "std::mutex mu;\n", "locks are core/base/mutex.h"),
    ("kernels/cpu/a.cc", "auto r = _mm256_rsqrt_ps(x);\n", "approximate reciprocals"),
    ("kernels/cpu/a.cc", "auto r = _mm512_rcp14_ps(x);\n", "approximate reciprocals"),
    ("kernels/cpu/a.cc", "float y = std::exp(x);\n", "libm"),
    ("core/train/a.cc", "double y = pow(beta, t);\n", "libm"),
    ("kernels/cpu/a.cc", "long double y;\n", "long double"),
    ("core/train/a.cc", "std::atomic<float> sum;\n", "float atomics"),
    ("core/train/a.cc", "auto s = std::reduce(a, b);\n", "order of the sum"),
    ("kernels/cpu/a.cc", "#pragma omp parallel for\n", "changes the order"),
    ("core/model/a.cc", "std::mt19937 rng(3);\n", "Philox"),
    ("kernels/BUILD.bazel", 'copts = ["-ffast-math"]\n', "changes the order or the roundings"),
    ("tools/bazel/cc.bzl", 'X = ["-ffp-contract=fast"]\n', "changes the order or the roundings"),
    ("tests/core/a_test.cc", "void F() { absl::SleepFor(x); }\n", "wait for events"),
    ("tests/core/a_test.cc", "void F() { std::this_thread::sleep_for(x); }\n", "wait for events"),
    ("tests/client/a_test.py", "time.sleep(1)\n", "wait for events"),
    ("core/model/a.cc", "int x;\n" * 601, "601 lines"),
    ("core/util/a.py", "x = 1\n", "name it after what is in it"),
    ("core/model/a.cc", "// TO" + "DO: later\n", "finish it"),
    ("tools/a.py", "# FIX" + "ME\n", "finish it"),
]


@pytest.mark.parametrize(("path", "text", "message"), PLANTED)
def test_planted_breach_is_found(tmp_path: Path, path: str, text: str, message: str) -> None:
    found = breaches_of(tmp_path, path, text)
    assert any(message in breach for breach in found), found


LEGAL = [
    ("server/a.cc", '#include <grpcpp/grpcpp.h>\n\n#include "core/engine/engine.h"\n'),
    ("tests/server/a_test.cc", "#include <grpcpp/grpcpp.h>\n"),
    ("client/cpp/a.cc", '#include "proto/lockstep/v1/generate.grpc.pb.h"\n'),
    ("core/comm/nccl_group.cc", "#include <nccl.h>\n"),
    ("core/device/cuda_stream.cc", "#include <cuda_runtime.h>\n"),
    ("core/engine/a.cc", '#include <glog/logging.h>\n\n#include "core/train/step.h"\n'),
    ("server/main.cc", "#include <gflags/gflags.h>\nint main() { exit(1); }\n"),
    ("server/server_main.cc", '#include "server/stop_signals.h"\n'),
    ("server/stop_signals.cc", "#include <csignal>\n"),
    ("kernels/cpu/a.cc", '#include <immintrin.h>\n\n#include "kernels/shapes.h"\n'),
    (
        "kernels/cpu/a.cc",
        "// std::exp(x) would be libm's; so is not abort()\nfloat y = OurExp(x);\n",
    ),
    (
        "kernels/cpu/a.cc",
        'const char* s = "printf(std::mutex)"; float y = std::fma(a, b, c) + std::sqrt(d);\n',
    ),
    (
        "core/model/a.cc",
        'auto s = R"(throw "exit(1)")"; int n = 1\'000\'000; char c = \'"\'; int m;\n',
    ),
    ("core/model/a.cc", "int v = table.log(3) + model->exp(2) + policy_exp(1);\n"),
    ("core/train/a.cc", "std::atomic<int> steps;\n"),
    (
        "core/base/mutex.h",
        "#ifndef LOCKSTEP_CORE_BASE_MUTEX_H_\n#define LOCKSTEP_CORE_BASE_MUTEX_H_\nstd::mutex m;\n#endif\n",
    ),
    ("tests/core/a_test.cc", "std::mutex mu; void F() { abort(); }\n"),
    ("tools/bazel/cc.bzl", 'X = ["-ffp-contract=off"]  # not -ffast-math\n'),
    ("core/model/a.cc", "int x;\n" * 600),
]


@pytest.mark.parametrize(("path", "text"), LEGAL)
def test_legal_neighbour_is_not(tmp_path: Path, path: str, text: str) -> None:
    assert breaches_of(tmp_path, path, text) == []


def test_own_header_comes_first(tmp_path: Path) -> None:
    breaches_of(
        tmp_path,
        "core/model/a.h",
        "#ifndef LOCKSTEP_CORE_MODEL_A_H_\n#define LOCKSTEP_CORE_MODEL_A_H_\n#endif\n",
    )
    late = breaches_of(
        tmp_path, "core/model/a.cc", '#include <vector>\n\n#include "core/model/a.h"\n'
    )
    assert late == ["the first include must be core/model/a.h"]
    assert (
        breaches_of(tmp_path, "core/model/a.cc", '#include "core/model/a.h"\n\n#include <vector>\n')
        == []
    )


def test_file_belongs_to_a_target(tmp_path: Path) -> None:
    folder = tmp_path / "core/model"
    folder.mkdir(parents=True)
    (folder / "a_test.cc").write_text("int x;\n")
    path = PurePosixPath("core/model/a_test.cc")
    assert [breach.message for breach in tidy.check(tmp_path, [path])] == [
        "its folder has no BUILD.bazel"
    ]
    (folder / "BUILD.bazel").write_text('cc_test(name = "b_test", srcs = ["b_test.cc"])\n')
    assert [breach.message for breach in tidy.check(tmp_path, [path])] == [
        "no target of its BUILD.bazel names it"
    ]


def test_breach_names_path_and_line(tmp_path: Path) -> None:
    (tmp_path / "core/model").mkdir(parents=True)
    (tmp_path / "core/model/BUILD.bazel").write_text('["a.cc"]\n')
    (tmp_path / "core/model/a.cc").write_text("/* two\nlines */\nlong double x;\n")
    (breach,) = tidy.check(tmp_path, [PurePosixPath("core/model/a.cc")])
    assert str(breach).startswith("core/model/a.cc:3: ")


def test_every_rule_has_a_planted_breach(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With one rule taken out, some planted breach goes unnoticed."""
    elsewhere = {tidy.check_package}  # planted by test_file_belongs_to_a_target
    for index, rule in enumerate(tidy.RULES):
        if rule in elsewhere:
            continue
        with monkeypatch.context() as patch:
            patch.setattr(tidy, "RULES", tidy.RULES[:index] + tidy.RULES[index + 1 :])
            missed = [
                message
                for number, (path, text, message) in enumerate(PLANTED)
                if not any(
                    message in found
                    for found in breaches_of(tmp_path / f"{index}-{number}", path, text)
                )
            ]
        assert missed, f"no planted breach needs {rule.__name__}"


def test_this_repository_is_clean() -> None:
    root = Path(__file__).resolve().parents[2]
    assert [str(breach) for breach in tidy.check(root, tidy.repository_files(root))] == []
