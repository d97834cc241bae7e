"""The result as one table: Markdown for people, JSON for programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from model_bench.limits import MachinePeak
from model_bench.pairs import BAND_PERCENTILES, Band, Pair, Summary, summarize
from model_bench.rows import Row
from model_bench.same_model import Agreement

HEADER = (
    "row",
    "ours, tok/s",
    "peer, tok/s",
    "ours / peer",
    "its band",
    "A/A band",
    "limit, tok/s",
    "reached",
)

EXPLANATION = (
    "Medians over the pairs (ours, peer, ours again). Ours / peer takes ours as the geometric mean of its two"
    " runs; bands are the {low:.0f}th to {high:.0f}th percentile over the pairs; the A/A band is ours / ours"
    " again. The limit is by the roofline of the machine's peaks, measured beside each pair. lockstep's bf16 has"
    " fp32 masters and moments, as torch-autocast has; torch-bf16 has weights, gradients and moments in bf16."
)


@dataclass(frozen=True)
class MeasuredRow:
    row: Row
    pairs: list[Pair]

    @property
    def summary(self) -> Summary:
        return summarize(self.pairs)


@dataclass(frozen=True)
class Report:
    """All that a run of the bench found out."""

    machine: str
    threads: int
    commit: str
    sides: dict[str, str]  # what each side says it is
    agreements: Sequence[Agreement]
    peaks: Sequence[MachinePeak]  # in the order measured, one beside each pair that has a limit
    idle_share: float
    rows: Sequence[MeasuredRow]

    def to_json(self) -> dict[str, Any]:
        return {
            "machine": self.machine,
            "threads": self.threads,
            "commit": self.commit,
            "sides": self.sides,
            "same_model": [
                asdict(agreement) | {"is_same_model": agreement.is_same_model}
                for agreement in self.agreements
            ],
            "idle_share": self.idle_share,
            "machine_peaks": [asdict(peak) for peak in self.peaks],
            "rows": [_row_json(measured) for measured in self.rows],
        }

    def to_markdown(self) -> str:
        low, high = BAND_PERCENTILES
        lines = [
            f"{self.machine}, {self.threads} threads, commit {self.commit}.",
            "",
            *(f"- {name}: {text}" for name, text in self.sides.items()),
            *(f"- {agreement}" for agreement in self.agreements),
            *self._peak_lines(),
            f"- processor used by the sides that waited: {self.idle_share:.1%} of a core",
            "",
            *markdown_table(HEADER, [_cells(measured) for measured in self.rows]),
            "",
            EXPLANATION.format(low=low, high=high),
        ]
        return "\n".join(lines) + "\n"

    def _peak_lines(self) -> list[str]:
        if not self.peaks:
            return []
        reads = [peak.read_gigabytes_per_second for peak in self.peaks]
        fma = [peak.fma_gflops for peak in self.peaks]
        dots = [peak.bf16_dot_gflops for peak in self.peaks if peak.bf16_dot_gflops is not None]
        parts = [f"reading {_span(reads)} GB/s", f"fp32 FMA {_span(fma)} GFLOP/s"]
        if dots:
            parts.append(f"bf16 dot {_span(dots)} GFLOP/s")
        return [f"- the machine while it was measured: {', '.join(parts)}"]


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """First column to the left, the others to the right."""
    rule = ["---"] + ["---:"] * (len(header) - 1)
    return [f"| {' | '.join(cells)} |" for cells in (header, rule, *rows)]


def _cells(measured: MeasuredRow) -> list[str]:
    summary = measured.summary
    note = f" ({measured.row.note})" if measured.row.note else ""
    return [
        f"{measured.row.title}{note}",
        _number(summary.ours),
        f"{measured.row.peer} {_number(summary.peer)}",
        f"**{summary.ratio:.2f}**",
        _band(summary.ratio_band),
        _band(summary.self_band),
        "" if summary.limit is None else _number(summary.limit),
        "" if summary.reached is None else f"{summary.reached:.0%}",
    ]


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def _band(band: Band) -> str:
    return f"{band.low:.2f}-{band.high:.2f}"


def _span(values: Sequence[float]) -> str:
    return f"{min(values):.0f}-{max(values):.0f}"


def _row_json(measured: MeasuredRow) -> dict[str, Any]:
    row = measured.row
    return {
        "name": row.name,
        "title": row.title,
        "ours": row.ours,
        "peer": row.peer,
        "unit": row.unit,
        "sizes": row.sizes,
        "rate": f"{row.note or 'tokens'} a second",
        "summary": asdict(measured.summary),
        "pairs": [asdict(pair) for pair in measured.pairs],
    }
