"""Sweeps: many deterministic runs, on one core or on ten thousand, into one folder.

A *unit* is one run: a trace, a policy, a fabric, a rate, a seed and the other conditions. Its id is the SHA-256 of these and of the
version, the trace by its name and by what was read, so that the same unit has the same id everywhere, and its results are the same
bytes whoever computes them. Whatever is in the folder is not run again: a sweep that was interrupted is started again as it was,
and one that grows runs what is new.

The folder, or place in an object store, is a Parquet dataset: ``summary/ID.parquet``, ``coflows/ID.parquet`` and
``tasks/ID.parquet``. Workers write there themselves. A file appears whole or not at all (renamed, or one PUT), and a unit's summary
comes last: where it is, all of the unit is.

A single run is not distributed: it computes one event after another, and is as fast as one core.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import pickle
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from . import executors
from .executors import Reports

if TYPE_CHECKING:
    import pyarrow

    from ._native import Fabric, NamedPolicy, Trace

# The layout of the dataset, and what a unit's id is made of.
_LAYOUT = 1
_TABLES = ("summary", "coflows", "tasks")
# Where files are before they are whole; readers of datasets pass over it.
_PARTS = ".parts"
# Traces that a worker keeps unpacked. Units come in the order of their traces.
_KEPT = 2
_DAY = 86_400


@dataclass(frozen=True)
class Unit:
    """One run of a sweep. All but the trace are texts as the program takes them; no fabric is one switch."""

    trace: str
    # SHA-256 of the trace as the native format has it: a file is another trace when it is read as another format.
    digest: str
    policy: str
    fabric: str | None
    rate: str
    seed: int
    # As JSON, sorted.
    conditions: str = "{}"

    @property
    def id(self) -> str:
        """The address of its results: 32 hexadecimal digits."""
        from ._native import __version__

        trace = [self.trace, self.digest]
        whole = [_LAYOUT, __version__, *trace, self.policy, self.fabric, self.rate, self.seed, self.conditions]
        return hashlib.sha256(json.dumps(whole).encode()).hexdigest()[:32]

    def __str__(self) -> str:
        parts = [self.trace, self.policy, self.fabric, self.rate, f"seed {self.seed}"]
        return ", ".join(part for part in parts if part is not None)


@dataclass(frozen=True)
class Failure:
    """A unit that has no results, and why."""

    unit: Unit
    error: str

    def __str__(self) -> str:
        return f"{self.unit}: {self.error}"


@dataclass
class Sweep:
    """What a sweep has come to: its place, its units in their order, and what became of them."""

    place: str
    units: list[Unit]
    tables: tuple[str, ...]
    # Units run by this call, and those that were there already.
    run: int = 0
    found: int = 0
    # Seconds that the units run by this call took, all together.
    seconds: float = 0.0
    failures: list[Failure] = field(default_factory=list)

    def table(self, name: str) -> pyarrow.Table:
        """Returns the rows of all units that have results, in the order of the units: ``summary``, ``coflows`` or ``tasks``.

        The columns ``unit``, ``trace`` and ``fabric`` stand before those of ``Runs``.
        """
        import pyarrow
        import pyarrow.parquet

        if name not in self.tables:
            raise ValueError(f"no table {name!r} was kept: expected one of {', '.join(self.tables)}")
        store = _Store.at(self.place)
        there = store.ids(name)
        found = [store.read(name, unit.id) for unit in self.units if unit.id in there]
        tables = [pyarrow.parquet.read_table(io.BytesIO(content)) for content in found]
        return pyarrow.concat_tables(tables) if tables else pyarrow.table({})

    @property
    def summary(self) -> pyarrow.Table:
        """A row for each unit."""
        return self.table("summary")

    @property
    def coflows(self) -> pyarrow.Table:
        """A row for each coflow of each unit."""
        return self.table("coflows")

    @property
    def tasks(self) -> pyarrow.Table:
        """A row for each task of each unit."""
        return self.table("tasks")


class SweepError(RuntimeError):
    """Some units have no results. The others have: ``sweep`` is what there is, and names the failures."""

    def __init__(self, sweep: Sweep) -> None:
        self.sweep = sweep
        shown = [str(failure) for failure in sweep.failures[:5]]
        more = len(sweep.failures) - len(shown)
        rest = [f"and {more} more"] if more else []
        super().__init__("\n".join([f"{len(sweep.failures)} of {len(sweep.units)} units failed:", *shown, *rest]))

    def __reduce__(self) -> Any:
        return SweepError, (self.sweep,)


@dataclass(frozen=True)
class _Store:
    """A folder or a place in an object store, in which files appear whole."""

    files: Any
    root: str

    @staticmethod
    def at(place: str) -> _Store:
        import fsspec

        return _Store(*fsspec.core.url_to_fs(place))

    def _path(self, table: str, unit: str) -> str:
        return f"{self.root}/{table}/{unit}.parquet"

    @property
    def _is_folder(self) -> bool:
        protocol = self.files.protocol
        return "file" in ((protocol,) if isinstance(protocol, str) else protocol)

    def prepare(self, tables: Iterable[str]) -> None:
        """Makes the folders; where it cannot, that is known before anything is run."""
        for name in [*tables, *([_PARTS] if self._is_folder else [])]:
            self.files.makedirs(f"{self.root}/{name}", exist_ok=True)

    def ids(self, table: str) -> set[str]:
        """The units that have this table: one listing."""
        self.files.invalidate_cache()
        try:
            names = self.files.ls(f"{self.root}/{table}", detail=False)
        except FileNotFoundError:
            return set()
        return {name.rsplit("/", 1)[-1].removesuffix(".parquet") for name in names if name.endswith(".parquet")}

    def read(self, table: str, unit: str) -> bytes:
        content: bytes = self.files.cat_file(self._path(table, unit))
        return content

    def write(self, table: str, unit: str, content: bytes, owner: str) -> None:
        """Writes a table of a unit, for the sweep ``owner``."""
        path = self._path(table, unit)
        if not self._is_folder:
            # One PUT: an object is there whole or not at all.
            self.files.pipe_file(path, content)
            return
        part = f"{self.root}/{_PARTS}/{owner}.{unit}.{table}.{uuid4().hex}"
        with open(part, "wb") as file:
            file.write(content)
        os.replace(part, path)

    def tidy(self, owner: str) -> None:
        """Removes what workers of a sweep that were killed have left, and sweeps that were killed themselves a day ago."""
        if self._is_folder:
            for entry in os.scandir(f"{self.root}/{_PARTS}"):
                with suppress(FileNotFoundError):
                    if entry.name.startswith(f"{owner}.") or time.time() - entry.stat().st_mtime > _DAY:
                        os.unlink(entry.path)


_unpacked: OrderedDict[str, Trace] = OrderedDict()
_unpacking = threading.Lock()


def identity() -> dict[str, str]:
    """What has to be the same in the caller and in each worker, or bytes would differ."""
    import pyarrow

    from ._native import __version__

    return {"cavalcade": __version__, "pyarrow": pyarrow.__version__, "layout": str(_LAYOUT)}


@dataclass(frozen=True)
class Job:
    """What all units share, in the form that travels: packed traces by their digests, the place and its tables, and versions."""

    traces: Mapping[str, bytes]
    place: str
    tables: tuple[str, ...]
    versions: Mapping[str, str]
    owner: str

    def __call__(self, unit: Unit) -> None:
        """Runs a unit and writes its results."""
        from . import _native

        if identity() != self.versions:
            raise executors.Unfit(
                f"a worker has other versions: {_listed(identity())}; the caller has {_listed(self.versions)}: "
                "install the same in both"
            )
        runs = _native.simulate(
            self._trace(unit.digest),
            unit.policy,
            rate=unit.rate,
            seed=unit.seed,
            fabric=unit.fabric,
            **json.loads(unit.conditions),
        )
        store = _Store.at(self.place)
        # The summary comes last: where it is, all of the unit is.
        for name in sorted(self.tables, key="summary".__eq__):
            store.write(name, unit.id, _parquet(getattr(runs, name).to_arrow(), unit), self.owner)

    def _trace(self, digest: str) -> Trace:
        with _unpacking:
            if digest not in _unpacked:
                _unpacked[digest] = pickle.loads(self.traces[digest])
                while len(_unpacked) > _KEPT:
                    _unpacked.popitem(last=False)
            _unpacked.move_to_end(digest)
            return _unpacked[digest]


def _listed(versions: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in versions.items())


def _parquet(table: pyarrow.Table, unit: Unit) -> bytes:
    """The table of a unit as a file: what differs from run to run is left out."""
    import pyarrow
    import pyarrow.parquet

    kept = table.select([name for name in table.column_names if not name.startswith("wall")])
    for name, value in [("fabric", unit.fabric), ("trace", unit.trace), ("unit", unit.id)]:
        column = pyarrow.array([value] * len(kept), pyarrow.string())
        kept = kept.add_column(0, name, column)
    content = io.BytesIO()
    pyarrow.parquet.write_table(kept.replace_schema_metadata(None), content, compression="zstd")
    return content.getvalue()


def _several(value: Any, *alone: type) -> list[Any]:
    """A value that may be given alone, as a list."""
    return [value] if value is None or isinstance(value, (str, *alone)) else list(value)


def _check(conditions: Mapping[str, Any]) -> None:
    """Runs one transfer, which finds a condition that is none before anything is made."""
    from . import _native

    transfer = _native.Trace.from_bytes(b"1 0 1 1000 0\n", name="one transfer")
    _native.simulate(transfer, "fair", **conditions)


def _units(
    traces: Sequence[tuple[str, Trace]],
    policies: Any,
    fabrics: Any,
    rates: Any,
    seeds: Any,
    conditions: Mapping[str, Any],
) -> list[Unit]:
    """All combinations, each once, of traces by their digests; everything named in text is parsed here."""
    from . import _native

    named = []
    for given in _several(policies, _native.NamedPolicy):
        if not isinstance(given, (str, _native.NamedPolicy)):
            raise TypeError(
                f"{given!r} has no name that workers know: a sweep takes policies of the registry; compare() takes this one"
            )
        named.append(str(_native.policy(given) if isinstance(given, str) else given))
    shapes = [None if given is None else str(_native.fabric(str(given))) for given in _several(fabrics, _native.Fabric)]
    others = json.dumps(dict(sorted(conditions.items())), default=str)
    _check(json.loads(others))
    speeds = _several(rates, int)
    numbers = [int(seed) for seed in _several(seeds, int)]
    units = [
        Unit(trace.name, digest, policy, fabric, rate, seed, others)
        for digest, trace in traces
        for fabric in shapes
        for rate in (_native.rate(trace, given) for given in speeds)
        for seed in numbers
        for policy in named
    ]
    if not units:
        raise ValueError("a sweep of no units: expected at least one each of traces, policies, fabrics, rates and seeds")
    return list({unit.id: unit for unit in units}.values())


def executor(on: Any) -> Callable[[executors.Job, Sequence[Any]], Reports]:
    """Returns the executor that ``on`` names."""
    if on is None:
        return executors.here
    if isinstance(on, int) and not isinstance(on, bool):
        if on < 1:
            raise ValueError(f"on={on}: expected at least one process")
        return partial(executors.processes, on)
    if on == "ray":
        return executors.ray
    if isinstance(on, str) and on.startswith(("dask://", "tcp://", "tls://")):
        from distributed import Client

        return partial(executors.dask, Client(on.replace("dask://", "tcp://", 1)))
    if hasattr(on, "submit") and hasattr(on, "scatter"):
        return partial(executors.dask, on)
    raise TypeError(
        f"on={on!r}: expected None, a number of processes, a dask.distributed.Client, an address as 'dask://HOST:PORT', or 'ray'"
    )


def _asked(on: Any, part: tuple[int, int] | None) -> tuple[Any, tuple[int, int] | None]:
    """Returns where to run and which part; what was not said is taken from the environment, where recipes put it."""
    said = os.environ.get("CAVALCADE_ON")
    if on is None and said:
        on = int(said) if said.isdigit() else said
    share = os.environ.get("CAVALCADE_PART")
    if part is None and share:
        try:
            index, of = share.split("/")
            part = (int(index), int(of))
        except ValueError:
            raise ValueError(f"CAVALCADE_PART={share}: expected i/n, such as 0/100") from None
    return on, part


def _shown(progress: bool | Callable[[int, int], object] | None) -> Callable[[int, int], object]:
    """Returns what is told how many units are done, of how many."""
    if callable(progress):
        return progress
    if not progress:
        return lambda done, of: None
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return lambda done, of: None
    bar = tqdm(unit="run")

    def show(done: int, of: int) -> None:
        bar.total = of
        bar.update(done - bar.n)
        if done == of:
            bar.close()

    return show


def sweep(
    traces: Trace | Iterable[Trace],
    policies: str | NamedPolicy | Iterable[str | NamedPolicy],
    *,
    out: str | os.PathLike[str],
    fabrics: str | Fabric | Iterable[str | Fabric | None] | None = None,
    rates: str | int | Iterable[str | int | None] | None = None,
    seeds: int | Iterable[int] = 1,
    on: Any = None,
    part: tuple[int, int] | None = None,
    tables: Iterable[str] = _TABLES,
    progress: bool | Callable[[int, int], object] | None = None,
    **conditions: Any,
) -> Sweep:
    """Runs every combination of traces, policies, fabrics, rates and seeds that has no results in ``out`` yet.

    ``out`` is a folder or a URL of fsspec, as ``s3://bucket/study``; workers on other hosts have to reach it. ``on`` says where to
    run: in this process (``None``), in so many processes of this machine, on a ``dask.distributed.Client`` or its address, as
    ``dask://HOST:PORT``, or on ``"ray"``. ``part=(i, n)`` runs each n-th unit from the i-th on, for arrays of jobs. ``tables`` are
    those to keep: ``("summary",)`` is enough for means. Where ``on`` or ``part`` is ``None``, the environment variables
    ``CAVALCADE_ON`` (as ``dask://HOST:PORT``, ``ray`` or ``4``) and ``CAVALCADE_PART`` (as ``0/100``) say it: recipes
    (``python -m cavalcade.recipes``) set them. ``conditions`` go to ``simulate`` as they are: ``engine``, ``transport``,
    ``offline`` and so on.

    Raises :class:`SweepError` at the end where units failed. Ctrl-C, or an exception in ``progress``, ends it at once; what was
    written stays, whole.
    """
    from . import _native

    given = _several(traces, _native.Trace)
    listed = [(hashlib.sha256(trace.to_bytes()).hexdigest(), trace) for trace in given]
    units = _units(listed, policies, fabrics, rates, seeds, conditions)
    asked = set(_several(tables))
    kept = tuple(name for name in _TABLES if name == "summary" or name in asked)
    unknown = asked - set(_TABLES)
    if unknown:
        raise ValueError(f"no table {sorted(unknown)[0]!r}: expected some of {', '.join(_TABLES)}")
    on, part = _asked(on, part)
    if part is not None:
        index, of = part
        if not 0 <= index < of:
            raise ValueError(f"part={part}: expected (i, n) with i from 0 to n - 1")
        units = units[index::of]
    execute = executor(on)
    store = _Store.at(os.fspath(out))
    store.prepare(kept)
    there = set.intersection(*(store.ids(name) for name in kept))
    todo = [unit for unit in units if unit.id not in there]
    result = Sweep(os.fspath(out), units, kept, found=len(units) - len(todo))
    wanted = {unit.digest for unit in todo}
    packed = {digest: pickle.dumps(trace) for digest, trace in listed if digest in wanted}
    place = os.path.abspath(store.root) if store._is_folder else os.fspath(out)
    owner = uuid4().hex
    try:
        _run(execute, Job(packed, place, kept, identity(), owner), todo, result, _shown(progress))
    finally:
        store.tidy(owner)
    if result.failures:
        raise SweepError(result)
    return result


def _run(
    execute: Callable[[executors.Job, Sequence[Any]], Reports],
    job: Job,
    todo: Sequence[Unit],
    result: Sweep,
    show: Callable[[int, int], object],
) -> None:
    """Runs what is to be done, and counts it in ``result``; failures stand there in the order of the units."""
    show(result.found, len(result.units))
    if not todo:
        return
    failed: dict[int, str] = {}
    with closing(execute(job, todo)) as reports:
        for ended, report in enumerate(reports, 1):
            if report.ends_all:
                raise RuntimeError(report.error)
            result.seconds += report.seconds
            if report.error is None:
                result.run += 1
            else:
                failed[report.number] = report.error
            show(result.found + ended, len(result.units))
    result.failures = [Failure(todo[number], error) for number, error in sorted(failed.items())]
