"""The compiled part: what `cavalcade` (the package) offers for analysis. Import from `cavalcade`, not from here."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from os import PathLike
from typing import Any, Literal, Protocol, final

__version__: str

class Ordering(Protocol):
    """A policy in Python, as `compare` takes it: see `cavalcade.Policy`."""

    def order(self, coflows: list[Coflow], /) -> Iterable[Coflow]: ...

class ArrowStream(Protocol):
    """A table of any library that speaks Arrow's C stream interface: Polars, pandas, PyArrow, DuckDB."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

class Columns(Protocol):
    """A table whose columns are asked for by name: a NumPy record array, a pandas frame without PyArrow."""

    def __getitem__(self, name: str, /) -> Any: ...

Path = str | PathLike[str]
Choice = str | NamedPolicy | Ordering | type[Ordering]
Engine = Literal["fluid", "packet", "control"]
Seen = Callable[[int, int], object]

@final
class Trace:
    """A workload of coflows, and where it is from. It is never changed, and pickles."""

    @staticmethod
    def read(path: Path | Sequence[Path], format: str | None = None) -> Trace:
        """Reads a trace: a file of any format that the program reads, a folder of Spark logs, or a list of logs, as one cluster."""

    @staticmethod
    def from_flows(
        table: ArrowStream | Columns | Mapping[str, Any],
        *,
        start: str | None = None,
        size: str | None = None,
        source: str | None = None,
        destination: str | None = None,
        coflow: str | None = None,
        unit: Literal["s", "ms", "us", "ns"] | None = None,
        size_unit: str = "bytes",
        ports: int | None = None,
        name: str = "table",
    ) -> Trace:
        """Makes a trace of a table with a row for each flow. Columns that are not named are found as in a CSV."""

    @staticmethod
    def generate(spec: str, *, seed: int = 1) -> Trace:
        """Generates a trace, as `facebook:coflows=100,ports=50`."""

    @staticmethod
    def from_bytes(content: bytes, *, name: str = "bytes", format: str | None = None) -> Trace:
        """Reads a trace out of bytes."""

    def to_bytes(self) -> bytes:
        """The trace in the native format, as `from_bytes` reads it; the same bytes for equal traces."""

    def write(self, path: Path) -> None:
        """Writes the trace in the native format; compressed if the name ends in .gz or .zst."""

    @property
    def name(self) -> str:
        """What messages and manifests call it."""

    @property
    def coflows(self) -> int:
        """Number of coflows."""

    @property
    def flows(self) -> int:
        """Number of flows."""

    @property
    def tasks(self) -> int:
        """Number of tasks."""

    @property
    def ports(self) -> int:
        """Number of ports."""

    @property
    def bytes(self) -> int:
        """Bytes of all flows."""

    @property
    def hosts(self) -> list[str] | None:
        """Names of the hosts, by port; `None` where they are numbers."""

    @property
    def digest(self) -> str:
        """SHA-256, in hexadecimal: of the file that was read, or of `to_bytes()` where there was none."""

    @property
    def notes(self) -> list[str]:
        """What the reader of a log estimated or left out."""

@final
class Parameter:
    """A parameter of a policy, transport, fabric or generator."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def default(self) -> str:
        """Its value unless it is set."""

    @property
    def expected(self) -> str:
        """What it may be."""

    @property
    def meaning(self) -> str:
        """What it is."""

@final
class Description:
    """A policy, transport, fabric or generator: what it is called, what it is, and its parameters."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def title(self) -> str:
        """What it is, in a line."""

    @property
    def paper(self) -> str | None:
        """The paper that it is from, where it is a paper's."""

    @property
    def told_sizes(self) -> bool | None:
        """Whether a policy is told sizes; `None` for anything else."""

    @property
    def parameters(self) -> list[Parameter]:
        """Its parameters."""

@final
class NamedPolicy:
    """A policy of the registry with its parameters set; `str()` is the text that names it."""

    @property
    def name(self) -> str:
        """Its name, without parameters."""

    @property
    def parameters(self) -> dict[str, str]:
        """All parameters with their values, as text."""

    @property
    def told_sizes(self) -> bool:
        """Whether it is told sizes."""

@final
class Transport:
    """A transport with its parameters set; `str()` is the text that names it."""

    @property
    def name(self) -> str:
        """Its name, without parameters."""

@final
class Fabric:
    """A fabric; `str()` is the text that names it."""

@final
class Table:
    """Columns of results. Any library that reads Arrow takes it as it is, without a copy; what else is asked of it, is asked
    of `to_polars()`."""

    @property
    def names(self) -> list[str]:
        """The names of the columns."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...
    def __arrow_c_schema__(self) -> object: ...
    def __len__(self) -> int: ...
    def to_pandas(self) -> Any:
        """As a pandas frame."""

    def to_polars(self) -> Any:
        """As a Polars frame."""

    def to_arrow(self) -> Any:
        """As a PyArrow table."""

    def to_csv(self) -> str:
        """As CSV, as the program writes it."""

    def write(self, path: Path) -> None:
        """Writes a file by its ending: .csv or .parquet, as the program writes them."""

    def __getitem__(self, name: str) -> Any:
        """A column by its name, as a Polars series."""

    def __getattr__(self, name: str) -> Any: ...

@final
class Figure:
    """A figure for a paper or a notebook."""

    @property
    def svg(self) -> str:
        """What the SVG file has: text as outlines, so it looks alike in every program."""

    def save(self, path: Path) -> None:
        """Writes it as SVG, PDF or PNG, by the ending of the name."""

    def _repr_svg_(self) -> str: ...

@final
class Plots:
    """The figures of a result."""

    def cdf(self, *, by: str = "policy", width: Literal["column", "page"] = "column") -> Figure:
        """Distribution of coflow completion times."""

    def tasks(self, *, by: str = "policy", width: Literal["column", "page"] = "column") -> Figure:
        """Distribution of task completion times, where tasks have several coflows."""

    def gain(self, *, width: Literal["column", "page"] = "column") -> Figure:
        """Speedup over the baseline, for all coflows and by bin."""

    def timeline(self, *, width: Literal["column", "page"] = "column") -> Figure:
        """Every coflow from arrival to finish."""

    def ab(self, a: str, b: str, *, width: Literal["column", "page"] = "column") -> Figure:
        """One policy against another: both times of each coflow, and the distribution of speedups."""

    def classes(self, *, width: Literal["column", "page"] = "column") -> Figure:
        """Mean bytes that wait in each priority class; each policy runs again. What decides at links has no classes."""

    def queueing(self, *, width: Literal["column", "page"] = "column") -> Figure:
        """Mean time lost to others, by bin."""

@final
class Bound:
    """What no schedule can be below. `mean_s` is of all conditions, each counted once."""

    @property
    def mean_s(self) -> float:
        """No policy has a lower mean completion time over these rates, each counted once."""

    @property
    def misses(self) -> int:
        """At least so many tasks miss their deadline in any schedule."""

    @property
    def method(self) -> str:
        """The name of the method that found it."""

    @property
    def budget(self) -> str:
        """The budget of the search, in words."""

    @property
    def repeatable(self) -> bool:
        """Whether it is the same on every machine."""

    @property
    def table(self) -> Table:
        """The bound of each rate."""

@final
class Runs:
    """What came out: one run for each policy under each rate and seed."""

    @property
    def coflows(self) -> Table:
        """A row for each coflow in each run."""

    @property
    def flows(self) -> Table:
        """A row for each flow in each run."""

    @property
    def tasks(self) -> Table:
        """A row for each task in each run."""

    @property
    def schedule(self) -> Table:
        """A row for each piece of time in which a flow is sent at one rate; of the fluid engine, which runs again for it."""

    @property
    def summary(self) -> Table:
        """A row for each run with its figures."""

    @property
    def trace(self) -> Trace:
        """The trace."""

    @property
    def policies(self) -> list[str]:
        """What the runs under each rate and seed are called."""

    @property
    def rates(self) -> list[str]:
        """The rates."""

    @property
    def seeds(self) -> list[int]:
        """The seeds."""

    @property
    def plot(self) -> Plots:
        """The figures."""

    def __len__(self) -> int: ...
    def bound(self, budget: int | str | None = None) -> Bound:
        """Searches for a bound on all runs: a number of linear programs, or a time such as "20s"."""

    def at(self, *, rate: str | None = None, seed: int | None = None) -> Runs:
        """The runs under one rate, or of one seed."""

    def save(self, folder: Path, *, schedule: bool = False) -> None:
        """Keeps all runs in a folder, as `cavalcade compare --out` does; `schedule` runs them again to keep their rates."""

    def json(self) -> str:
        """The result as JSON, as `cavalcade compare --json` prints it; of one rate and seed."""

    def report(self, path: Path) -> None:
        """Writes a page of HTML for people, as `cavalcade compare --report` does; of one rate and seed."""

    def to_latex(self, path: Path | None = None) -> str:
        """The table for a paper, and its file where a path is given."""

    def _repr_html_(self) -> str: ...

@final
class Verdict:
    """What the independent check of a run's schedule found: it holds, or there is a `CheckError`."""

    @property
    def segments(self) -> int:
        """Pieces of time that were checked."""

    @property
    def peak_load(self) -> float:
        """The load of the busiest link, as a share of its capacity."""

    @property
    def work_conservation(self) -> bool:
        """Whether it was checked that no capacity was left idle."""

@final
class Replay:
    """A run again, whose results are the same bit for bit, or there is a `CheckError`."""

    @property
    def results(self) -> dict[str, str]:
        """The SHA-256 of each file of results."""

@final
class Flow:
    """A flow, as a policy in Python sees it."""

    @property
    def id(self) -> int:
        """Number of the flow."""

    @property
    def source(self) -> int:
        """Port that sends."""

    @property
    def destination(self) -> int:
        """Port that receives."""

    @property
    def sent_bytes(self) -> int:
        """Bytes that it has sent."""

    @property
    def size_bytes(self) -> int:
        """Its bytes; told only to a clairvoyant policy."""

    @property
    def remaining_bytes(self) -> int:
        """Bytes that it has still to send; told only to a clairvoyant policy."""

@final
class Iteration:
    """An iteration of a training job, as the job declares it."""

    @property
    def number(self) -> int:
        """Its number: later ones have higher numbers."""

    @property
    def bytes(self) -> int:
        """Bytes of all its coflows."""

    @property
    def gpus(self) -> int:
        """GPUs of the job."""

    @property
    def compute_s(self) -> float:
        """How long each of them computes in an iteration, on average."""

@final
class Coflow:
    """A coflow under way, as a policy in Python sees it. Sizes raise unless the policy says `clairvoyant = True`."""

    @property
    def id(self) -> int:
        """Number of the coflow in the trace; under the control engine, of the coordinator's own."""

    @property
    def name(self) -> str:
        """Its name in the trace."""

    @property
    def task(self) -> int:
        """Number of its task."""

    @property
    def arrived_s(self) -> float:
        """When its first flow arrived, in seconds since the first arrival of all."""

    @property
    def task_arrived_s(self) -> float:
        """When its task was submitted."""

    @property
    def deadline_s(self) -> float | None:
        """When its task should be done; `None` if it has no deadline."""

    @property
    def weight(self) -> int:
        """Its task's weight."""

    @property
    def iteration(self) -> Iteration | None:
        """The iteration of a training job that it is part of; `None` if its job declares none."""

    @property
    def now_s(self) -> float:
        """The time now."""

    @property
    def sent_bytes(self) -> int:
        """Bytes that it has sent."""

    @property
    def size_bytes(self) -> int:
        """Bytes of its flows that have arrived; told only to a clairvoyant policy."""

    @property
    def remaining_bytes(self) -> int:
        """Bytes that it has still to send; told only to a clairvoyant policy."""

    @property
    def bottleneck_s(self) -> float:
        """The time that the rest takes with the fabric to itself (Γ); told only to a clairvoyant policy."""

    @property
    def flows(self) -> list[Flow]:
        """Its unfinished flows that have arrived."""

def read(path: Path | Sequence[Path], format: str | None = None) -> Trace:
    """Reads a trace: `Trace.read`."""

def policies() -> list[Description]:
    """All policies, those of papers under their own names."""

def transports() -> list[Description]:
    """All transports of the packet engine."""

def generators() -> list[Description]:
    """All generators of workloads."""

def policy(name: str, /, **settings: object) -> NamedPolicy:
    """A policy with parameters: `policy("dclas", queues=20)`."""

def transport(name: str, /, **settings: object) -> Transport:
    """A transport with parameters: `transport("dctcp", marking="30KB")`."""

def fabric(shape: str, /, **settings: object) -> Fabric:
    """A fabric: `fabric("tree", pods=1, racks=3, hosts=4)`, or the text that the program takes."""

def compare(
    trace: Trace,
    policies: Iterable[Choice] | Choice | None = None,
    *,
    rate: str | int | Sequence[str | int] | None = None,
    seeds: int | Iterable[int] | None = None,
    fabric: str | Fabric | None = None,
    engine: Engine = "fluid",
    transport: str | Transport | None = None,
    baseline: str | None = None,
    bound: int | str | bool | None = None,
    offline: bool = False,
    control_delay: str = "0ns",
    control_loss: float = 0.0,
    counters: int = 1,
    period: str = "10ms",
    link_delay: str = "1us",
    mtu: int = 1500,
    headers: int = 40,
    progress: bool | Seen | None = None,
) -> Runs:
    """Runs several policies over one trace, under each rate and with each seed.

    `None` compares what the program does: fair sharing, each paper's policy that the trace allows, and our best. `"all"` is
    every policy. What of these is left out is a `UserWarning`.
    """

@final
class Experiment:
    """An experiment whose runs workers make; see `cavalcade.experiments`. It is never changed."""

    def __init__(self, name: str, text: str, data: Mapping[str, bytes], beside: Mapping[str, bytes]) -> None: ...
    def row(self, workload: str, policy: str, conditions: str, seed: int) -> list[int]:
        """Makes one run and returns its row in words of 64 bits."""

def rate(trace: Trace, given: str | int | None) -> str:
    """The text of the rate that a run of a trace has where this one is given, or none, as tables have it."""

def simulate(
    trace: Trace,
    policy: Choice | None = None,
    *,
    rate: str | int | None = None,
    seed: int = 1,
    fabric: str | Fabric | None = None,
    engine: Engine = "fluid",
    transport: str | Transport | None = None,
    offline: bool = False,
    control_delay: str = "0ns",
    control_loss: float = 0.0,
    counters: int = 1,
    period: str = "10ms",
    link_delay: str = "1us",
    mtu: int = 1500,
    headers: int = 40,
    progress: bool | Seen | None = None,
) -> Runs:
    """Runs one policy over a trace."""

def sweep_figure(
    trace: Trace | str,
    over: str,
    values: Iterable[str | float],
    policies: Choice | Sequence[Choice],
    *,
    show: Literal["mean", "p95", "speedup"] = "mean",
    seeds: int | Iterable[int] | None = None,
    baseline: str | None = None,
    rate: str | int | None = None,
    fabric: str | Fabric | None = None,
    offline: bool = False,
    control_delay: str = "0ns",
    width: Literal["column", "page"] = "column",
    progress: bool | Seen | None = None,
) -> Figure:
    """Runs policies at each value of a condition or a parameter, and draws a line for each.

    Instead of a trace, the text of a generator makes one for each of `seeds`; points then have 95 % intervals. `over` is
    "rate" of all links, "load" (a multiple of the trace's own), "control_delay", "period" (of the live coordinator, which
    then runs all policies), or a parameter such as "first_threshold"; a policy without it is a level line. `show` is "mean"
    or "p95" of completion times, or "speedup" over the baseline.
    """

def bound(
    trace: Trace,
    *,
    budget: int | str | None = None,
    rate: str | int | Sequence[str | int] | None = None,
    fabric: str | Fabric | None = None,
    offline: bool = False,
    progress: bool | Seen | None = None,
) -> Bound:
    """Searches for a mean completion time that no schedule can be below."""

def validate(folder: Path, *, trace: Path | None = None) -> Verdict:
    """Checks the schedule of a run's folder by code that shares nothing with the engine."""

def replay(folder: Path, *, trace: Path | None = None) -> Replay:
    """Runs a folder's run again and checks that every result is the same."""

@final
class Workload:
    """What a training job does in an iteration, as its file has it; what it prints is what `cavalcade train info` does."""

    @property
    def ranks(self) -> int:
        """How many ranks the job has."""

    @property
    def computation_s(self) -> list[float]:
        """The computation of each rank in an iteration, in seconds."""

    @property
    def communication(self) -> Table:
        """A row for each collective and transfer: its kind, its group, and the whole buffer at one rank."""

    @property
    def notes(self) -> list[tuple[str, str]]:
        """What is exact, estimated and left out: the word, and what it is said of."""

    def json(self) -> str:
        """The same as JSON, as `cavalcade train info --json` prints it."""

def workload(
    path: Path,
    *,
    ranks: int | None = None,
    tensor: int | None = None,
    pipeline: int | None = None,
    expert: int | None = None,
    groups: Literal["phase", "name"] = "phase",
    overlap: bool = False,
    one_for_all: bool = False,
    host: Literal["kept", "left_out"] = "kept",
) -> Workload:
    """Reads what a training job does in an iteration: a recording of torch.profiler, a trace of Chakra, a workload of AICB or
    SimAI, or a folder with a file of each rank.

    What a file leaves out, the arguments say: docs/training.md. `one_for_all` lets the file of one rank stand for all;
    `host="left_out"` leaves out the time in which a recorded GPU waited for its host.
    """

@final
class JobRuns:
    """Training jobs under several policies, and each of them alone; what it prints is what `cavalcade train compare` does."""

    @property
    def policies(self) -> list[str]:
        """What the runs are called."""

    @property
    def gpu_use(self) -> dict[str, float]:
        """GPU use of all jobs together under each policy, until the first job of its run ends."""

    @property
    def jobs(self) -> Table:
        """A row for each job under each policy: its iterations, against alone, and where the time of its GPUs went."""

    @property
    def iterations(self) -> Table:
        """A row for each iteration of each job under each policy."""

    @property
    def collectives(self) -> Table:
        """A row for each kind of collective in each kind of group, with bandwidths as nccl-tests have them."""

    @property
    def links(self) -> Table:
        """A row for each link that carried anything under each policy, the busiest first."""

    @property
    def notes(self) -> dict[str, list[tuple[str, str]]]:
        """What is exact, estimated and left out of each job: the word, and what it is said of."""

    def json(self) -> str:
        """The result as JSON, as `cavalcade train compare --json` prints it."""

    def report(self, path: Path) -> None:
        """Writes a page of HTML for people: all tables, and what each rank did when."""

    def events(self, path: Path) -> None:
        """Writes what each rank did when, as trace events for ui.perfetto.dev."""

def compare_jobs(
    jobs: Path,
    policies: Iterable[str | NamedPolicy] | None = None,
    *,
    iterations: int | None = None,
    engine: Engine = "fluid",
    transport: str | Transport | None = None,
    period: str = "10ms",
    link_delay: str = "1us",
    mtu: int = 1500,
    headers: int = 40,
    progress: bool | Seen | None = None,
) -> JobRuns:
    """Runs the training jobs of a jobs file on their cluster under each policy, and each job alone under fair sharing.

    A jobs file describes a cluster and the jobs on it: docs/training.md. `None` compares fair sharing, `sebf` and `crux`;
    `iterations` stands in place of what the file says. `engine` and what belongs to it are those of `compare`.
    """
