"""Goal: code of kernels/cpu, compiled for an instruction set, is never run on a CPU without it. Every function that the
linker may pick in place of another file's (weak symbols) must be named after its set's vector type; else baseline code
could end up with it. Method: the symbol tables of the archives that the build made."""

import subprocess
from pathlib import Path

import pytest

_ARCHIVES = Path(__file__).resolve().parents[3] / "bazel-bin" / "kernels" / "cpu"

# The vector type of each archive, as it appears in every name that is its own.
_VECTORS = {
    "scalar": "scalar::F32x1",
    "avx2": "avx2::F32x8",
    "avx512": "avx512::F32x16<lockstep::kernels::avx512::Foundation>",
    "avx512_bf16": "avx512::F32x16<lockstep::kernels::avx512::WithBf16>",
}


def foreign_functions(symbols: str, vector: str) -> list[str]:
    """Functions in nm's output that are not `vector`'s own, but for the factories that select.cc calls."""
    foreign = []
    for line in symbols.splitlines():
        parts = line.split(maxsplit=2)
        if len(parts) != 3 or parts[1] not in "WT":
            continue
        name = parts[2]
        is_factory = name.startswith("lockstep::kernels::Create") and parts[1] == "T"
        if vector not in name and not is_factory:
            foreign.append(name)
    return foreign


@pytest.mark.parametrize("archive", _VECTORS)
def test_every_function_is_named_after_its_set(archive: str) -> None:
    path = _ARCHIVES / f"lib{archive}.a"
    symbols = subprocess.run(
        ["nm", "-C", "--defined-only", path], check=True, capture_output=True, text=True
    ).stdout
    assert f"lockstep::kernels::cpu::CpuKernels<lockstep::kernels::{_VECTORS[archive]}" in symbols
    assert foreign_functions(symbols, _VECTORS[archive]) == []


def test_a_shared_function_is_found() -> None:
    symbols = """
0000000000000000 W void std::vector<long, std::allocator<long> >::_M_realloc_insert<long>(long&&)
0000000000000000 W lockstep::kernels::cpu::Exp<lockstep::kernels::avx2::F32x8>(lockstep::kernels::avx2::F32x8)
0000000000000000 T lockstep::kernels::CreateAvx2Fp32Kernels()
0000000000000000 V typeinfo for lockstep::kernels::Kernels
0000000000000010 r kTable
"""
    found = foreign_functions(symbols, _VECTORS["avx2"])
    assert found == [
        "void std::vector<long, std::allocator<long> >::_M_realloc_insert<long>(long&&)"
    ]
    assert len(foreign_functions(symbols, _VECTORS["avx512"])) == 2
