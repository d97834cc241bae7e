"""Goal: medians, ratios and bands say what they claim. Method: small numbers worked out by hand."""

import pytest
from model_bench.pairs import Band, Pair, band, percentile, summarize


def test_percentile_interpolates_between_ranks() -> None:
    values = [40.0, 10.0, 30.0, 20.0]
    assert percentile(values, 0) == 10.0
    assert percentile(values, 50) == 25.0
    assert percentile(values, 100) == 40.0
    assert percentile([7.0], 95) == 7.0


def test_band_leaves_out_the_extremes() -> None:
    assert band([float(value) for value in range(101)]) == Band(5.0, 95.0)


def test_a_steady_slowdown_favours_neither_side() -> None:
    # Equal programs on a machine that loses a tenth from one run to the next.
    pair = Pair(ours=100.0, peer=90.0, ours_again=81.0)
    assert pair.ratio == pytest.approx(1.0)
    assert pair.self_ratio == pytest.approx(100 / 81)


def test_summary_takes_medians() -> None:
    pairs = [Pair(2.0, 1.0, 2.0, 4.0), Pair(3.0, 1.0, 3.0, 4.0), Pair(9.0, 1.0, 9.0, 12.0)]
    summary = summarize(pairs)

    assert summary.pairs == 3
    assert (summary.ours, summary.peer, summary.ratio) == (3.0, 1.0, 3.0)
    assert (summary.limit, summary.reached) == (4.0, 0.75)
    assert summary.self_band == Band(1.0, 1.0)
    assert summary.ratio_band == Band(pytest.approx(2.1), pytest.approx(8.4))


def test_a_row_without_a_limit_reaches_none() -> None:
    summary = summarize([Pair(2.0, 1.0, 2.0)])
    assert summary.limit is None
    assert summary.reached is None
