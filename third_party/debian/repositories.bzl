"""Repositories made from Debian's packages, where Bazel 4.2.3 cannot use the package as it stands."""

_RULES_CC = "/usr/share/bazel/rules/cc"

# Debian's rules_cc 0.0.4 loads `use_cpp_toolchain`, which its Bazel 4.2.3 does not have yet, in these two files. The
# Bazel tools of that version hold rules of the same names, so the copy re-exports those.
_REEXPORTED = {
    "compiler_flag": "compiler_flag",
    "cc_flags_supplier": "cc_flags_supplier",
}

def _debian_rules_cc_impl(ctx):
    if not ctx.path(_RULES_CC).exists:
        fail("%s is missing: run tools/setup, which installs bazel-rules-cc" % _RULES_CC)
    result = ctx.execute(["cp", "-rL", _RULES_CC + "/.", "."])
    if result.return_code != 0:
        fail("cannot copy %s: %s" % (_RULES_CC, result.stderr))
    for file, symbol in _REEXPORTED.items():
        ctx.file(
            "cc/private/rules_impl/%s.bzl" % file,
            'load("@bazel_tools//tools/cpp:%s.bzl", _symbol = "%s")\n\n%s = _symbol\n' % (file, symbol, symbol),
        )

debian_rules_cc = repository_rule(
    implementation = _debian_rules_cc_impl,
    doc = "A copy of Debian's rules_cc that loads under Debian's Bazel.",
    local = True,
)

def _empty_coverage_tools_impl(ctx):
    ctx.file("WORKSPACE", "")
    ctx.file("BUILD.bazel", """\
package(default_visibility = ["//visibility:public"])

filegroup(name = "Main")

alias(name = "coverage_report_generator", actual = "Main")

alias(name = "lcov_merger", actual = "Main")
""")

empty_coverage_tools = repository_rule(
    implementation = _empty_coverage_tools_impl,
    doc = "`bazel test` resolves the coverage tools even when no coverage is asked for; this stands in for the download.",
)
