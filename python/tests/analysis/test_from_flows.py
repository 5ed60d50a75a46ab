"""Traces of tables: any library gives the trace that a CSV of the same rows gives."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

import cavalcade as cv

np = pytest.importorskip("numpy")
pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")

Flows = dict[str, list[Any]]


def csv_of(flows: Flows, path: Path) -> cv.Trace:
    rows = [",".join(flows), *(",".join(map(str, row)) for row in zip(*flows.values(), strict=True))]
    path.write_text("\n".join(rows) + "\n")
    return cv.read(path)


def arrays(flows: Flows) -> dict[str, Any]:
    return {name: np.array(values) for name, values in flows.items()}


MAKERS = {
    "lists": lambda flows: flows,
    "numpy": arrays,
    "objects": lambda flows: {name: np.array(values, dtype=object) for name, values in flows.items()},
    "records": lambda flows: np.rec.fromarrays(list(arrays(flows).values()), names=list(flows)),
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "arrow": pa.table,
    "categories": lambda flows: pl.DataFrame(flows).with_columns(
        pl.col("src").cast(pl.Categorical), pl.col("coflow").cast(pl.Categorical)
    ),
    "batches": lambda flows: pa.Table.from_batches(pa.table(flows).to_batches(max_chunksize=1)),
    "views": lambda flows: pa.table(flows).cast(
        pa.schema(
            [
                ("src", pa.large_string()),
                ("dst", pa.string_view()),
                ("bytes", pa.uint32()),
                ("start_ms", pa.float64()),
                ("coflow", pa.dictionary(pa.int8(), pa.string())),
            ]
        )
    ),
}


@pytest.mark.parametrize("maker", MAKERS.values(), ids=MAKERS)
def test_every_library_gives_the_trace_of_the_csv(maker: Any, flows: Flows, tmp_path: Path) -> None:
    expected = csv_of(flows, tmp_path / "flows.csv")
    found = cv.Trace.from_flows(maker(flows))
    assert found.to_bytes() == expected.to_bytes()
    assert found.hosts == ["web-1", "db-1", "web-2"]
    assert (found.coflows, found.flows, found.bytes) == (2, 4, 2_940_000)


def test_rows_in_any_order_are_the_same_coflows(flows: Flows, tmp_path: Path) -> None:
    turned = {name: values[::-1] for name, values in flows.items()}
    assert cv.Trace.from_flows(turned).to_bytes() == csv_of(turned, tmp_path / "turned.csv").to_bytes()


def test_columns_and_units_can_be_named(flows: Flows) -> None:
    expected = cv.Trace.from_flows(flows)
    renamed = {
        "a": flows["src"],
        "b": flows["dst"],
        "kb": [size / 1000 for size in flows["bytes"]],
        "when": [time / 1000 for time in flows["start_ms"]],
        "job": flows["coflow"],
    }
    found = cv.Trace.from_flows(
        renamed, source="a", destination="b", size="kb", start="when", coflow="job", unit="s", size_unit="KB"
    )
    assert found.to_bytes() == expected.to_bytes()


def test_dates_carry_their_unit(flows: Flows) -> None:
    starts = np.array([0, 1_500_000, 100_000, 7_000_000], dtype="timedelta64[ns]")
    dates = np.datetime64("2026-01-01T00:00:00", "ns") + starts
    expected = cv.compare(cv.Trace.from_flows(flows), ["fair"]).coflows.to_polars()
    columns = ["cct_ns", "name"]
    for table in ({**flows, "start_ms": dates}, pd.DataFrame({**flows, "start_ms": dates})):
        found = cv.compare(cv.Trace.from_flows(table), ["fair"]).coflows.to_polars()
        assert found.select(columns).equals(expected.select(columns))


def test_whole_numbers_are_ports_and_gaps_are_flows_of_their_own(tmp_path: Path) -> None:
    table: Flows = {
        "src": [0, 1],
        "dst": [1, 0],
        "bytes": [5, 6],
        "start_s": [0, 1],
        "coflow": [7.0, float("nan")],
    }
    trace = cv.Trace.from_flows(pd.DataFrame(table))
    assert (trace.ports, trace.coflows, trace.hosts) == (2, 2, None)
    assert cv.Trace.from_flows(table, ports=5).ports == 5
    assert trace.to_bytes() == csv_of({**table, "coflow": [7, ""]}, tmp_path / "ports.csv").to_bytes()


def test_floats_of_32_bits_mean_their_text(tmp_path: Path) -> None:
    table: Flows = {
        "src": [0, 1],
        "dst": [1, 0],
        "bytes": [5, 6],
        "start_s": [0.1, 0.7],
        "coflow": ["a", "b"],
    }
    expected = csv_of(table, tmp_path / "narrow.csv").to_bytes()
    narrow = np.array(table["start_s"], dtype="float32")
    assert cv.Trace.from_flows({**table, "start_s": narrow}).to_bytes() == expected
    assert cv.Trace.from_flows(pl.DataFrame({**table, "start_s": narrow})).to_bytes() == expected


def changed(flows: Flows, **columns: Any) -> Flows:
    return {**flows, **columns}


BAD = {
    "nan": (dict(start_ms=[0.0, float("nan"), 1, 2]), "row 1, column start_ms"),
    "infinite": (dict(bytes=[1.0, 2.0, float("inf"), 3.0]), "row 2, column bytes"),
    "negative size": (dict(bytes=[1, 2, 3, -4]), "row 3, column bytes"),
    "negative start": (dict(start_ms=[-1, 2, 3, 4]), "row 0, column start_ms"),
    "no size": (dict(bytes=[0, 2, 3, 4]), "row 0, column bytes"),
    "half a byte": (dict(bytes=[1.5, 2.0, 3.0, 4.0]), "row 0, column bytes"),
    "missing size": (dict(bytes=[1, None, 3, 4]), "row 1, column bytes"),
    "missing host": (dict(src=["a", None, "b", "c"]), "row 1, column src"),
    "empty host": (dict(dst=["a", "", "b", "c"]), "row 1, column dst"),
    "text for sizes": (dict(bytes=["1", "2", "3", "4"]), "column bytes"),
    "floats for hosts": (dict(src=[0.5, 1.5, 2.5, 3.5]), "column src"),
    "truth for sizes": (dict(bytes=[True, False, True, True]), "column bytes"),
    "far beyond": (dict(start_ms=[0, 1, 2, 10**15]), "row 3, column start_ms"),
}


@pytest.mark.parametrize("library", ["lists", "numpy", "polars", "arrow"])
@pytest.mark.parametrize(("columns", "place"), BAD.values(), ids=BAD)
def test_a_bad_cell_is_told_with_its_place(library: str, columns: Flows, place: str, flows: Flows) -> None:
    table = MAKERS[library](changed(flows, **columns))
    with pytest.raises(cv.InputError) as caught:
        cv.Trace.from_flows(table)
    error = caught.value
    assert error.place is not None and place.split(", ")[-1] in error.place, error.place
    assert error.expected and error.cure, error
    if place.startswith("row") and library != "numpy":
        assert place in error.place, error.place


def test_a_list_of_categories_may_be_empty_where_every_row_is_missing(flows: Flows) -> None:
    nothing = pa.DictionaryArray.from_arrays(pa.array([None] * 4, pa.int8()), pa.array([], pa.string()))
    lone = {name: column for name, column in flows.items() if name != "coflow"}
    found = cv.Trace.from_flows(pa.table({**flows, "coflow": nothing}))
    assert found.to_bytes() == cv.Trace.from_flows(lone).to_bytes()
    with pytest.raises(cv.InputError, match="missing in row 0"):
        cv.Trace.from_flows(pa.table({**flows, "src": nothing}))


def test_what_is_no_table_of_flows_is_refused(flows: Flows) -> None:
    with pytest.raises(cv.InputError, match="no column bytes") as caught:
        cv.Trace.from_flows({name: flows[name] for name in ("src", "dst", "start_ms")})
    assert "size=" in (caught.value.cure or "")
    with pytest.raises(cv.InputError, match="no column \"when\""):
        cv.Trace.from_flows(flows, start="when", unit="s")
    with pytest.raises(cv.InputError, match="unequal lengths"):
        cv.Trace.from_flows(changed(flows, bytes=[1, 2]))
    with pytest.raises(cv.InputError, match="2 dimensions"):
        cv.Trace.from_flows(changed(flows, bytes=np.ones((4, 2))))
    with pytest.raises(cv.InputError, match="no coflows"):
        cv.Trace.from_flows({name: [] for name in flows})
    with pytest.raises(cv.UsageError, match="no unit of time") as usage:
        cv.Trace.from_flows({**{n: v for n, v in flows.items() if n != "start_ms"}, "t": flows["start_ms"]}, start="t")
    assert usage.value.place == "unit"
    with pytest.raises(cv.UsageError, match="unit"):
        cv.Trace.from_flows(flows, unit="hours")  # type: ignore[arg-type]
    with pytest.raises(cv.UsageError, match="size_unit"):
        cv.Trace.from_flows(flows, size_unit="stones")
    with pytest.raises(TypeError, match="collect"):
        cv.Trace.from_flows(pl.DataFrame(flows).lazy())
    for nothing in (None, 5, "flows.csv"):
        with pytest.raises(TypeError, match="table"):
            cv.Trace.from_flows(nothing)  # type: ignore[arg-type]


def test_a_trace_pickles_and_keeps_its_digest(flows: Flows, shuffles: Path) -> None:
    for trace in (cv.Trace.from_flows(flows), cv.read(shuffles)):
        again = pickle.loads(pickle.dumps(trace))
        assert again.to_bytes() == trace.to_bytes()
        assert (again.digest, again.name) == (trace.digest, trace.name)
    assert cv.Trace.from_bytes(trace.to_bytes()).to_bytes() == trace.to_bytes()
