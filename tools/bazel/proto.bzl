"""C++ code from .proto files by the protoc and grpc_cpp_plugin that Debian installs."""

load("@rules_cc//cc:defs.bzl", "cc_library")

def lockstep_proto_library(name, srcs, services = [], deps = [], proto_deps = [], visibility = None):
    """A cc_library of the code generated from .proto files of this package.

    Headers are included relative to the root: "proto/lockstep/v1/x.pb.h", "proto/lockstep/v1/x.grpc.pb.h". Imports
    inside the .proto files are relative to the root too.

    Args:
      name: the target's name.
      srcs: the .proto files of this package.
      services: those of srcs that define services; they get gRPC code as well.
      deps: lockstep_proto_library targets whose headers the generated code includes.
      proto_deps: the .proto files of other packages that srcs import.
      visibility: of the library.
    """
    stems = [src[:-len(".proto")] for src in srcs]
    service_stems = [src[:-len(".proto")] for src in services]
    headers = [stem + ".pb.h" for stem in stems] + [stem + ".grpc.pb.h" for stem in service_stems]
    sources = [stem + ".pb.cc" for stem in stems] + [stem + ".grpc.pb.cc" for stem in service_stems]

    commands = ["/usr/bin/protoc -I. --cpp_out=$(GENDIR) " + " ".join(["$(location %s)" % src for src in srcs])]
    if services:
        commands.append(
            "/usr/bin/protoc -I. --grpc_out=$(GENDIR) --plugin=protoc-gen-grpc=/usr/bin/grpc_cpp_plugin " +
            " ".join(["$(location %s)" % src for src in services]),
        )

    # Generated code is not ours to keep free of warnings, in whatever file includes it.
    commands.append("sed -i '1i #pragma GCC system_header' " + " ".join(["$(location %s)" % header for header in headers]))

    native.genrule(
        name = name + "_generated",
        srcs = srcs + proto_deps,
        outs = headers + sources,
        cmd = " && ".join(commands),
        visibility = ["//visibility:private"],
    )
    cc_library(
        name = name,
        srcs = sources,
        hdrs = headers,
        copts = ["-std=c++20", "-w"],
        linkstatic = True,
        visibility = visibility,
        deps = deps + ["//third_party:grpc" if services else "//third_party:protobuf"],
    )
