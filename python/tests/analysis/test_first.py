"""The ten lines that a researcher wants to write, as she wrote them."""

from __future__ import annotations

from pathlib import Path

import pytest

import cavalcade as cv

pl = pytest.importorskip("polars")


def test_the_ten_lines_run_as_they_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    df = pl.DataFrame(
        {
            "src": ["a", "b", "a", "c"],
            "dst": ["b", "c", "c", "a"],
            "bytes": [5_000_000, 2_000_000, 1_000_000, 9_000_000],
            "start_ms": [0, 1, 2, 2],
            "coflow": ["one", "one", "two", "three"],
        }
    )
    trace = cv.Trace.from_flows(df, start="start_ms", unit="ms")
    runs = cv.compare(
        trace,
        ["tcp", "aalo", "varys", cv.policy("dclas", queues=20)],
        rate=["1Gbps", "10Gbps"],
        seeds=range(10),
    )
    shown = str(runs)
    assert "fair (TCP)" in shown and "dclas:queues=20" in shown
    tails = runs.coflows.group_by("policy", "rate").agg(pl.col("cct_s").quantile(0.95))
    assert tails.height == 4 * 2
    bound = runs.bound(budget=200).mean_s
    assert 0 < bound <= runs.coflows.to_polars().get_column("cct_s").mean()
    runs.plot.cdf(by="policy", width="column").save("fig3.pdf")
    assert Path("fig3.pdf").read_bytes().startswith(b"%PDF")
    runs.save("runs/")
    assert len(list(Path("runs").glob("*/runs/*/manifest.json"))) == 4 * 2 * 10
    cv.replay(next(Path("runs").glob("*/runs/*")))

    class Mine(cv.Policy):  # told no sizes: c.size_bytes raises
        def order(self, coflows: list[cv.Coflow]) -> list[cv.Coflow]:
            return sorted(coflows, key=lambda c: c.sent_bytes)

    cv.compare(trace, ["tcp", Mine()]).to_latex("table1.tex")
    text = Path("table1.tex").read_text()
    assert text.count(r"\\") == 3 and "Mine" in text


def test_a_result_shows_itself_in_a_notebook(trace: cv.Trace) -> None:
    shown = cv.compare(trace, ["fair", "sebf"])._repr_html_()
    assert shown.count("<tr>") == 3 and "<svg" in shown
