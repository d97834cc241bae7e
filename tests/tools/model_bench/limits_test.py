"""Goal: work and limits are counted right. Method: SmolLM2-135M's published shape, and numbers worked out by hand."""

import pytest
from model_bench.limits import (
    MachinePeak,
    ModelShape,
    Work,
    decode_work,
    forward_work,
    prefill_work,
    train_work,
)

SMOLLM2 = {
    "hidden_size": 576,
    "intermediate_size": 1536,
    "num_hidden_layers": 30,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "head_dim": 64,
    "vocab_size": 49152,
}
SHAPE = ModelShape.from_config(SMOLLM2)
PEAK = MachinePeak(fma_gflops=200.0, bf16_dot_gflops=400.0, read_gigabytes_per_second=40.0)


def test_parameters_of_smollm2() -> None:
    assert SHAPE.parameters == 134_515_008
    assert SHAPE.embedding_parameters == 49152 * 576
    assert SHAPE.kv_values_per_position == 30 * 2 * 3 * 64


def test_a_decode_step_reads_weights_once_and_every_kv() -> None:
    work = decode_work(SHAPE, "bf16", sequences=16, context=100.0)
    assert work.tokens == 16
    assert work.bytes_read == 2 * (134_515_008 + 16 * 100 * 11_520)
    assert work.flops == 2 * 134_515_008 * 16


def test_only_the_last_position_of_a_prompt_meets_the_head() -> None:
    work = prefill_work(SHAPE, "bf16", tokens=256)
    assert work.flops == 2 * (256 * (SHAPE.parameters - SHAPE.embedding_parameters) + 49152 * 576)


def test_a_step_is_three_times_a_forward() -> None:
    assert train_work(SHAPE, tokens=512).flops == 3 * forward_work(SHAPE, tokens=512).flops


def test_the_slower_of_arithmetic_and_reading_bounds() -> None:
    reading = Work(tokens=1, flops=1e9, bytes_read=1e9)
    assert reading.tokens_per_second_max(PEAK, "bf16") == pytest.approx(40.0)
    arithmetic = Work(tokens=1, flops=100e9, bytes_read=1e9)
    assert arithmetic.tokens_per_second_max(PEAK, "bf16") == pytest.approx(4.0)
    assert arithmetic.tokens_per_second_max(PEAK, "fp32") == pytest.approx(2.0)


def test_the_peak_is_the_widest_set_that_the_machine_has() -> None:
    measured = {"fma_gflops": {"avx2": 100.0, "avx512": 180.0}, "read_gigabytes_per_second": 30.0}
    peak = MachinePeak.from_json(measured)
    assert peak.gflops("fp32") == 180.0
    # No bf16 instruction: the products of profile bf16 are fp32's.
    assert peak.gflops("bf16") == 180.0
    assert MachinePeak.from_json(measured | {"bf16_dot_gflops": 360.0}).gflops("bf16") == 360.0
