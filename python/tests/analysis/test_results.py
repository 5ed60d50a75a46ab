"""Results are the program's, to the byte."""

from __future__ import annotations

import csv
import io
import json
import os
import pickle
from collections.abc import Callable
from pathlib import Path

import pytest

import cavalcade as cv

POLICIES = ["fair", "sebf", "dclas:queues=4"]
Program = Callable[..., bytes]


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def without_wall(text: str | bytes) -> object:
    document = json.loads(text)
    assert document.pop("wall_s")
    return document


@pytest.mark.parametrize("schedule", [False, True])
def test_what_is_saved_is_what_the_program_writes(
    program: Program, shuffles: Path, tmp_path: Path, schedule: bool
) -> None:
    flags = ["--dump-schedule"] if schedule else []
    named = [word for policy in POLICIES for word in ("--policy", policy)]
    program("compare", shuffles, *named, "--no-bound", "--out", tmp_path / "theirs", *flags)
    cv.compare(cv.read(shuffles), POLICIES).save(tmp_path / "ours", schedule=schedule)
    assert files(tmp_path / "ours") == files(tmp_path / "theirs")
    program("simulate", shuffles, "--policy", "sebf", "--out", tmp_path / "their-run", *flags)
    cv.simulate(cv.read(shuffles), "sebf").save(tmp_path / "our-run", schedule=schedule)
    assert files(tmp_path / "our-run") == files(tmp_path / "their-run")
    program("replay", tmp_path / "ours/runs/sebf")
    assert len(cv.replay(tmp_path / "their-run").results) == (7 if schedule else 4)
    if schedule:
        program("validate", tmp_path / "our-run")
        assert cv.validate(tmp_path / "ours/runs/sebf").segments > 0


@pytest.mark.parametrize(
    ("arguments", "flags"),
    [
        ({}, []),
        ({"rate": "10Gbps", "offline": True}, ["--rate", "10Gbps", "--offline"]),
        ({"fabric": "tree:pods=1,racks=3,hosts=4"}, ["--fabric", "tree:pods=1,racks=3,hosts=4"]),
        ({"engine": "control", "control_delay": "1ms"}, ["--engine", "control", "--control-delay", "1ms"]),
        ({"bound": 50}, ["--bound", "50"]),
    ],
)
def test_json_and_table_are_the_programs(
    program: Program, queries: Path, arguments: dict[str, object], flags: list[str]
) -> None:
    runs = cv.compare(cv.read(queries), POLICIES, **arguments)  # type: ignore[arg-type]
    named = [word for policy in POLICIES for word in ("--policy", policy)]
    theirs = program("compare", queries, *named, "--json", *flags)
    assert without_wall(runs.json()) == without_wall(theirs)
    flags = flags if "--bound" in flags else [*flags, "--no-bound"]

    def lines(text: str) -> list[list[str]]:
        # The seconds that runs took stand in the last column, with their unit.
        found = [line.split() for line in text.splitlines()]
        return [words[:-2] if index in (0, 2, 3, 4) else words for index, words in enumerate(found) if index != 1]

    assert lines(str(runs)) == lines(program("compare", queries, *named, *flags).decode())


def test_without_a_policy_the_programs_default_set_is_compared(program: Program, queries: Path) -> None:
    runs = cv.compare(cv.read(queries))
    theirs = program("compare", queries, "--json")
    assert without_wall(runs.json()) == without_wall(theirs)
    assert {"fair", "baraat", "aalo"} < set(runs.policies)
    assert runs.policies == cv.compare(cv.read(queries), "default").policies


def test_what_of_a_set_cannot_run_is_a_warning_and_by_its_name_an_error() -> None:
    trace = cv.Trace.generate("fixed:coflows=4,ports=4,size=20KB", seed=1)
    with pytest.warns(UserWarning, match="baraat.*name it to run it"):
        runs = cv.compare(trace, engine="packet", transport="dctcp")
    assert "fair" in runs.policies and "baraat" not in runs.policies
    with pytest.raises(cv.UsageError, match="baraat"):
        cv.compare(trace, ["fair", "baraat"], engine="packet", transport="dctcp")


def test_packets_are_the_programs(program: Program, tmp_path: Path) -> None:
    trace = cv.Trace.generate("fixed:coflows=10,ports=4,size=200KB", seed=1)
    trace.write(tmp_path / "small.jsonl")
    runs = cv.compare(trace, ["fair", "dclas"], engine="packet", transport="dctcp")
    theirs = program(
        *("compare", tmp_path / "small.jsonl", "--policies", "fair,dclas", "--json"),
        *("--engine", "packet", "--transport", "dctcp"),
    )
    ours = json.loads(runs.json())
    other = json.loads(theirs)
    assert ours["runs"] == other["runs"]


def test_tables_have_the_columns_of_the_files(program: Program, shuffles: Path, tmp_path: Path) -> None:
    pl = pytest.importorskip("polars")
    named = [word for policy in POLICIES for word in ("--policy", policy)]
    program("compare", shuffles, *named, "--no-bound", "--out", tmp_path / "theirs", "--dump-schedule")
    runs = cv.compare(cv.read(shuffles), POLICIES)
    for name, table in {"coflows": runs.coflows, "tasks": runs.tasks}.items():
        theirs = pl.read_parquet(tmp_path / f"theirs/{name}.parquet")
        ours = table.to_polars()
        assert ours.select(theirs.columns).equals(theirs), name
        for column in (column for column in theirs.columns if column.endswith("_ns")):
            seconds = ours.get_column(column.replace("_ns", "_s"))
            assert (seconds * 1e9 - ours.get_column(column)).abs().max() in (None, 0) or seconds.len()
    flows = runs.flows.to_polars().filter(pl.col("run") == "sebf")
    theirs = pl.read_parquet(tmp_path / "theirs/runs/sebf/flows.parquet")
    assert flows.select(theirs.columns).equals(theirs)
    schedule = runs.schedule.to_polars().filter(pl.col("run") == "sebf")
    text = (tmp_path / "theirs/runs/sebf/schedule.csv").read_text()
    rows = [line for line in text.splitlines() if not line.startswith("#")]
    expected = list(csv.DictReader(io.StringIO("\n".join(rows))))
    assert schedule.get_column("flow").to_list() == [int(row["flow"]) for row in expected]
    assert schedule.get_column("to_ns").to_list() == [float(row["to_ns"]) for row in expected]


def test_every_library_takes_a_table(trace: cv.Trace) -> None:
    pd, pa, pl = (pytest.importorskip(name) for name in ("pandas", "pyarrow", "polars"))
    runs = cv.compare(trace, ["fair", "sebf"], rate=["1Gbps", "2Gbps"])
    table = runs.coflows
    assert len(table) == 2 * 2 * trace.coflows == pa.table(table).num_rows
    assert isinstance(table.to_pandas(), pd.DataFrame) and isinstance(table.to_polars(), pl.DataFrame)
    assert table.to_pandas().columns.tolist() == table.names == table.to_arrow().column_names
    assert list(table.names[:4]) == ["run", "policy", "rate", "seed"]
    assert pl.DataFrame(table).equals(table.to_polars())
    assert table.filter(pl.col("rate") == "2Gbps").height == 2 * trace.coflows
    assert table.to_csv().count("\n") == 1 + len(table)
    with pytest.raises(AttributeError, match="_private"):
        _ = table._private


def test_a_table_is_written_by_its_ending(trace: cv.Trace, tmp_path: Path) -> None:
    pl = pytest.importorskip("polars")
    table = cv.simulate(trace, "sebf").summary
    table.write(tmp_path / "runs.csv")
    table.write(tmp_path / "runs.parquet")
    assert pl.read_parquet(tmp_path / "runs.parquet").height == 1
    assert (tmp_path / "runs.csv").read_text() == table.to_csv()
    with pytest.raises(cv.UsageError, match="CSV or Parquet"):
        table.write(tmp_path / "runs.xlsx")
    assert sorted(os.listdir(tmp_path)) == ["runs.csv", "runs.parquet"]


def test_a_policy_that_is_not_there_is_not_drawn(shuffles: Path) -> None:
    runs = cv.compare(cv.read(shuffles), ["fair", "baraat"])
    with pytest.raises(cv.UsageError, match="sebf.*fair, baraat"):
        runs.plot.ab("fair", "sebf")
    with pytest.raises(cv.Error, match="baraat"):
        runs.plot.classes()


def test_figures_are_the_programs(program: Program, shuffles: Path, tmp_path: Path) -> None:
    runs = cv.compare(cv.read(shuffles), ["fair", "sebf"])
    for kind in ("cdf", "gain", "timeline", "queueing", "classes", "ab"):
        program("report", "figure", kind, shuffles, "--policies", "fair,sebf", "-o", tmp_path / "theirs.svg")
        drawn = getattr(runs.plot, kind)(*(("fair", "sebf") if kind == "ab" else ()))
        drawn.save(tmp_path / "ours.svg")
        assert (tmp_path / "ours.svg").read_bytes() == (tmp_path / "theirs.svg").read_bytes(), kind
    drawn.save(tmp_path / "ours.png")
    assert (tmp_path / "ours.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(cv.UsageError, match="SVG, PDF or PNG"):
        drawn.save(tmp_path / "ours.gif")
    runs.report(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text().startswith("<!")


def test_figures_of_sweeps_are_the_programs(program: Program, shuffles: Path, tmp_path: Path) -> None:
    def theirs(*arguments: object) -> str:
        program("report", "figure", "sweep", *arguments, "-o", tmp_path / "theirs.svg")
        return (tmp_path / "theirs.svg").read_text()

    for over, values in {
        "rate": ["1Gbps", "10Gbps"],
        "load": [0.5, 1, 4],
        "control_delay": ["0ms", "10ms"],
        "period": ["10ms", "1s"],
        "first_threshold": ["1MB", "100MB"],
    }.items():
        ours = cv.sweep_figure(cv.read(shuffles), over, values, ["fair", "dclas"])
        axis = f"{over}={','.join(map(str, values))}"
        assert ours.svg == theirs(shuffles, "--policies", "fair,dclas", "--over", axis), over
    spec = "facebook:coflows=20,ports=10"
    ours = cv.sweep_figure(spec, "load", [1, 2], ["fair", "sebf"], seeds=range(1, 4), show="speedup", width="page")
    wide = ("--show", "speedup", "--width", "page")
    assert ours.svg == theirs("--generate", spec, "--seeds", 3, "--policies", "fair,sebf", "--over", "load=1,2", *wide)


def test_a_sweep_that_cannot_be_is_refused(trace: cv.Trace) -> None:
    for over, values, more, said in [
        ("rate", ["1Gbps"], {}, "two values or more"),
        ("rate", ["1Gbps", "2Gbps"], {"rate": "1Gbps"}, "both set the rate"),
        ("rate", ["1Gbps", "2Gbps"], {"fabric": "leafspine:leaves=2,spines=1,hosts=9,rate=1Gbps"}, "itself"),
        ("load", [1, 2], {"seeds": [1, 2]}, "trace was given"),
        ("load", [1, 2], {"show": "median"}, "show median"),
        ("load", [1, 2], {"rate": ["1Gbps", "2Gbps"]}, "one rate"),
        ("load", [1, 0], {}, "load=0"),
        ("load", [1, 2], {"baseline": "varys"}, "not among the policies"),
        ("colour", ["red", "blue"], {}, "no condition"),
    ]:
        with pytest.raises(cv.UsageError, match=said):
            cv.sweep_figure(trace, over, values, ["fair", "sebf"], **more)  # type: ignore[arg-type]


def test_a_trace_of_no_file_is_saved_beside_its_runs(trace: cv.Trace, program: Program, tmp_path: Path) -> None:
    cv.compare(trace, ["fair", "sebf"], rate=["1Gbps", "2Gbps"]).save(tmp_path / "runs")
    folders = sorted(path.name for path in (tmp_path / "runs").iterdir() if path.is_dir())
    assert folders == ["1Gbps-1", "2Gbps-1"]
    program("replay", tmp_path / "runs/2Gbps-1/runs/sebf")
    assert cv.read(tmp_path / "runs/trace.jsonl").to_bytes() == trace.to_bytes()
    with pytest.raises(cv.RunError, match="already exists"):
        cv.compare(trace, ["fair"]).save(tmp_path / "runs")


def test_several_rates_and_seeds_are_chosen_from(trace: cv.Trace) -> None:
    runs = cv.compare(trace, ["fair", "sebf"], rate=["1Gbps", 2_000_000_000], seeds=[3, 4])
    assert (runs.rates, runs.seeds, runs.policies) == (["1Gbps", "2Gbps"], [3, 4], ["fair", "sebf"])
    assert len(runs) == 8 and len(runs.at(rate="2Gbps", seed=4)) == 2
    for one_only in (runs.json, runs.plot.gain):
        with pytest.raises(cv.UsageError, match="one rate and seed"):
            one_only()
    assert json.loads(runs.at(rate="2Gbps", seed=4).json())["conditions"]["seed"] == 4
    with pytest.raises(cv.UsageError, match="no such runs"):
        runs.at(rate="5Gbps")
    bound = runs.bound(budget=50)
    each = bound.table.to_pandas().mean_s
    assert bound.mean_s == pytest.approx(each.mean()) and len(each) == 2
    assert cv.bound(trace, budget=50, rate=["1Gbps", "2Gbps"]).mean_s == bound.mean_s


def test_logs_in_a_list_are_one_cluster_and_replay(program: Program, tmp_path: Path) -> None:
    log = Path(__file__).parents[3] / "examples/spark-eventlog.json"
    other = tmp_path / "other.json"
    other.write_text(log.read_text().replace("app-example", "app-other"))
    both = cv.read([log, other])
    assert both.coflows == 2 * cv.read(log).coflows and cv.read([log]).digest == cv.read(log).digest
    assert pickle.loads(pickle.dumps(both)).digest == both.digest
    cv.compare(both, ["fair"], rate="1Gbps").save(tmp_path / "kept")
    program("replay", tmp_path / "kept/runs/fair")
    with pytest.raises(cv.UsageError, match="no trace was named"):
        cv.read([])
