"""The C++ rules of Lockstep: rules_cc plus the flags that every file of ours is compiled with."""

load("@rules_cc//cc:defs.bzl", "cc_binary", "cc_library", "cc_test")

LOCKSTEP_COPTS = [
    "-std=c++20",
    "-Wall",
    "-Wextra",
    "-Werror",
    # gcc 12 takes moved-from members of a std::variant for uninitialised ones.
    "-Wno-maybe-uninitialized",
    # The order of every floating-point operation is the product (docs/numerics.md): a * b + c is two roundings unless
    # the source says std::fma. gcc would contract by default.
    "-ffp-contract=off",
]

# Which instruction set a library may use. Everything else is compiled for the x86-64 baseline, so that one binary runs
# anywhere and picks its kernels at start.
_SIMD_COPTS = {
    "none": [],
    # std::fma as one instruction (else it is a call into libm): the reference and the scalar set.
    "fma": ["-mfma"],
    "avx2": ["-mavx2", "-mfma"],
    # gcc 12 warns of its own intrinsics' undefined operands (GCC bug 105593).
    "avx512": ["-mavx512f", "-mfma", "-Wno-uninitialized"],
    "avx512_bf16": ["-mavx512bf16", "-mavx512bw", "-mavx512f", "-mfma", "-Wno-uninitialized"],
}

def lockstep_cc_library(name, copts = [], simd = "none", **kwargs):
    """cc_library with our flags.

    Args:
      name: the target's name.
      copts: flags after ours.
      simd: a key of _SIMD_COPTS.
      **kwargs: as cc_library.
    """
    cc_library(
        name = name,
        copts = LOCKSTEP_COPTS + _SIMD_COPTS[simd] + copts,
        # Objects are compiled once and archived; no shared object beside them.
        linkstatic = True,
        **kwargs
    )

def lockstep_cc_binary(name, copts = [], **kwargs):
    """cc_binary with our flags; arguments as cc_binary."""
    cc_binary(
        name = name,
        copts = LOCKSTEP_COPTS + copts,
        **kwargs
    )

def lockstep_cc_test(name, copts = [], simd = "none", size = "small", deps = [], **kwargs):
    """cc_test with our flags and GoogleTest's main.

    Tags with a meaning: "long" (only under tools/test --long), "no-asan" and "no-tsan" (left out of those runs of CI).

    Args:
      name: the target's name.
      copts: flags after ours.
      simd: a key of _SIMD_COPTS.
      size: Bazel's test size; it sets the timeout.
      deps: dependencies; //third_party:gtest_main is added.
      **kwargs: as cc_test.
    """
    gtest_main = "//third_party:gtest_main"
    cc_test(
        name = name,
        copts = LOCKSTEP_COPTS + _SIMD_COPTS[simd] + copts,
        size = size,
        deps = deps if gtest_main in deps else deps + [gtest_main],
        linkstatic = True,
        **kwargs
    )
