"""Fuzz targets: what parses bytes from outside."""

load("@rules_cc//cc:defs.bzl", "cc_binary", "cc_test")
load("//tools/bazel:cc.bzl", "LOCKSTEP_COPTS")

def lockstep_fuzz_target(name, srcs, deps, **kwargs):
    """A libFuzzer binary (only under --config=fuzz) and a test that replays its corpus under any compiler.

    The corpus is corpus/NAME/, one input a file. `bazel run --config=fuzz //tests/fuzz:NAME -- CORPUS_DIRECTORY` looks for
    more inputs and keeps them in that directory.

    Args:
      name: the target's name; its test is NAME_corpus_test.
      srcs: define LLVMFuzzerTestOneInput.
      deps: of both.
      **kwargs: of both.
    """
    cc_binary(
        name = name,
        testonly = True,
        srcs = srcs,
        copts = LOCKSTEP_COPTS,
        linkopts = ["-fsanitize=fuzzer"],
        tags = ["manual"],
        deps = deps,
        **kwargs
    )
    cc_test(
        name = name + "_corpus_test",
        size = "small",
        srcs = srcs,
        copts = LOCKSTEP_COPTS,
        data = native.glob(["corpus/" + name + "/*"]),
        linkstatic = True,
        env = {"LOCKSTEP_CORPUS": "tests/fuzz/corpus/" + name},
        deps = deps + [":replay_corpus"],
        **kwargs
    )
