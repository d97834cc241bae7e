"""Goal: the table shows what was measured. Method: a report with numbers worked out by hand, read back."""

import json

import pytest
from model_bench.limits import MachinePeak
from model_bench.pairs import Pair
from model_bench.rows import ROWS, rows_by_name
from model_bench.same_model import Agreement, same_tokens
from model_bench.table import MeasuredRow, Report, markdown_table


def make_report() -> Report:
    rows = {row.name: row for row in ROWS}
    return Report(
        machine="a CPU, 2 cores",
        threads=2,
        commit="abc1234",
        sides={"lockstep-bf16": "lockstep 1"},
        agreements=[Agreement("lockstep-bf16", "llama.cpp", same_tokens=32, tokens=32)],
        peaks=[MachinePeak(200.0, 400.0, 30.0), MachinePeak(210.0, 420.0, 40.0)],
        idle_share=0.001,
        rows=[
            MeasuredRow(rows["decode-1"], [Pair(90.0, 60.0, 90.0, 100.0)]),
            MeasuredRow(rows["grpo-bf16"], [Pair(2000.0, 1000.0, 2000.0)]),
        ],
    )


def test_markdown() -> None:
    lines = make_report().to_markdown().splitlines()
    decode = next(line for line in lines if line.startswith("| decode, 1 sequence"))
    grpo = next(line for line in lines if line.startswith("| GRPO"))

    assert decode.split(" | ")[1:] == [
        "90.0",
        "llama.cpp 60.0",
        "**1.50**",
        "1.50-1.50",
        "1.00-1.00",
        "100",
        "90% |",
    ]
    assert "(sampled tokens) | 2,000 | torch-bf16 1,000 | **2.00**" in grpo
    assert "reading 30-40 GB/s" in "\n".join(lines)
    assert "the same 32 of 32 greedy tokens: the same model" in "\n".join(lines)


def test_json_holds_every_pair() -> None:
    read = json.loads(json.dumps(make_report().to_json()))
    assert [row["name"] for row in read["rows"]] == ["decode-1", "grpo-bf16"]
    assert read["rows"][0]["pairs"] == [
        {"ours": 90.0, "peer": 60.0, "ours_again": 90.0, "limit": 100.0}
    ]
    assert read["rows"][0]["summary"]["reached"] == pytest.approx(0.9)
    assert read["same_model"][0]["is_same_model"] is True


def test_markdown_table() -> None:
    assert markdown_table(["a", "b"], [["x", "1"]]) == [
        "| a | b |",
        "| --- | ---: |",
        "| x | 1 |",
    ]


def test_another_model_is_told_by_its_tokens() -> None:
    assert same_tokens([1, 2, 3], [1, 2, 4]) == 2
    assert same_tokens([5], [6]) == 0
    assert not Agreement("a", "b", same_tokens=3, tokens=32).is_same_model


def test_rows_are_named_in_the_order_of_the_table() -> None:
    assert [row.name for row in rows_by_name("prefill,decode-1")] == ["decode-1", "prefill"]
    assert rows_by_name("all") == list(ROWS)
    assert len({row.name for row in ROWS}) == len(ROWS)


@pytest.mark.parametrize(("names", "message"), [("decode-2", "no row 'decode-2'"), (",", "no row")])
def test_unknown_rows_are_refused(names: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        rows_by_name(names)
