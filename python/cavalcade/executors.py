"""Where the units of a sweep are run: in this process, in processes of this machine, on Dask, on Ray.

A *job* is what all units share; it travels to each worker once, and is then called with one unit after another. Every executor is a
generator of a :class:`Report` for each unit, with what the job returned, in the order in which they end. To close it ends what is
under way.

What each owes: a worker that dies costs the units that it had in hand, and those are tried again; a unit that was in the hands of
``ATTEMPTS`` dying workers is reported as failed. No executor looks into a job or a unit, and none writes anything.

Processes of this machine are children that run :func:`serve` over pipes. Rejected: ``concurrent.futures`` (one dead worker breaks the
pool, and nobody knows which unit it had) and ``multiprocessing`` (``spawn`` runs the caller's script again, ``fork`` copies threads).
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import pickle
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass
from typing import IO, Any
from uuid import uuid4

Job = Callable[[Any], Any]

Reports = Generator["Report", None, None]

# The workers that may die over one unit.
ATTEMPTS = 3
# Units in hand per core of a cluster: enough that no core waits for the scheduler, few enough that it need not keep many.
_AHEAD = 4
# Seconds that a worker has to end by itself once it has closed its pipe.
_GRACE = 5


@dataclass(frozen=True)
class Report:
    """How a unit ended: its number, the seconds that it took, and what went wrong, if anything did."""

    number: int
    seconds: float
    error: str | None = None
    # Nothing else can go right either.
    ends_all: bool = False
    # What the job returned.
    value: Any = None


class Unfit(Exception):
    """A worker cannot do any unit of this job."""


def attempt(job: Job, number: int, unit: Any) -> Report:
    """Runs one unit, and reports whatever comes of it."""
    begun = time.monotonic()
    try:
        value = job(unit)
    except Unfit as error:
        return Report(number, time.monotonic() - begun, str(error), ends_all=True)
    except Exception as error:
        return Report(number, time.monotonic() - begun, _described(error))
    return Report(number, time.monotonic() - begun, value=value)


def _described(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def _died(how: str) -> str:
    return f"{ATTEMPTS} workers or more died while they ran it ({how}): it may need more memory than they have"


def here(job: Job, units: Sequence[Any]) -> Reports:
    """Runs units in this process, in order."""
    for number, unit in enumerate(units):
        yield attempt(job, number, unit)


# Processes of this machine.


@dataclass
class _Worker:
    process: subprocess.Popen[bytes]
    number: int | None = None

    @property
    def said(self) -> IO[bytes]:
        assert self.process.stdout is not None
        return self.process.stdout

    def tell(self, what: bytes) -> None:
        assert self.process.stdin is not None
        _write(self.process.stdin, what)

    def end(self) -> int:
        """Kills it, if it still lives, and returns how it ended."""
        self.process.kill()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except OSError:
                    pass  # What was still to be written to it.
        return self.process.wait()


def _write(pipe: IO[bytes], what: bytes) -> None:
    pipe.write(len(what).to_bytes(8, "little") + what)
    pipe.flush()


def _read(pipe: IO[bytes]) -> bytes | None:
    """Reads what :func:`_write` wrote; nothing where the other end is gone."""
    length = int.from_bytes(head := pipe.read(8), "little")
    what = pipe.read(length)
    return what if len(head) == 8 and len(what) == length else None


def serve() -> None:
    """What a process of :func:`processes` does until its parent hangs up."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    asked, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    # What a unit prints is no answer.
    os.dup2(2, 1)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    packed = _read(asked)
    if packed is None:
        return
    job = pickle.loads(packed)
    _write(answers, b"")
    waiting: deque[bytes] = deque()
    news = threading.Semaphore(0)

    def listen() -> None:
        while (told := _read(asked)) is not None:
            waiting.append(told)
            news.release()
        # The parent is gone, or wants no more: what is under way is for nobody.
        os._exit(0)

    threading.Thread(target=listen, daemon=True).start()
    while True:
        news.acquire()
        number, unit = pickle.loads(waiting.popleft())
        _write(answers, pickle.dumps(attempt(job, number, unit)))


def _start() -> _Worker:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(place or os.getcwd() for place in sys.path)}
    command = [sys.executable, "-c", "from cavalcade.executors import serve; serve()"]
    return _Worker(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment))


def _prepare(worker: _Worker, packed: bytes) -> None:
    try:
        worker.tell(packed)
    except BrokenPipeError:
        pass  # It says so by its end.
    if _read(worker.said) is None:
        # Its pipe is closed before it has ended: a kill now would hide how it ends.
        with contextlib.suppress(subprocess.TimeoutExpired):
            worker.process.wait(_GRACE)
        raise RuntimeError(f"a worker process ended before its first unit, with code {worker.end()}: see what it wrote to stderr")


def processes(count: int, job: Job, units: Sequence[Any]) -> Reports:
    """Runs units in so many processes of this machine. At most as many are started as there are units."""
    packed = pickle.dumps(job)
    todo: deque[int] = deque(range(len(units)))
    deaths = [0] * len(units)
    workers: list[_Worker] = []
    selector = selectors.DefaultSelector()

    def give(worker: _Worker) -> None:
        worker.number = todo.popleft() if todo else None
        if worker.number is not None:
            try:
                worker.tell(pickle.dumps((worker.number, units[worker.number])))
            except BrokenPipeError:
                pass  # Seen when its answer is read.

    def enter(worker: _Worker) -> None:
        _prepare(worker, packed)
        selector.register(worker.said, selectors.EVENT_READ, worker)
        give(worker)

    try:
        # All start before the first is waited for.
        workers += [_start() for _ in range(min(count, len(units)))]
        for worker in workers:
            enter(worker)
        while any(worker.number is not None for worker in workers):
            for ready, _ in selector.select():
                worker = ready.data
                answer = _read(worker.said)
                if answer is not None:
                    yield pickle.loads(answer)
                    give(worker)
                    continue
                selector.unregister(worker.said)
                workers.remove(worker)
                how, number = worker.end(), worker.number
                if number is None:
                    continue
                deaths[number] += 1
                if deaths[number] < ATTEMPTS:
                    todo.appendleft(number)
                else:
                    yield Report(number, 0.0, _died(f"signal {-how}" if how < 0 else f"exit code {how}"))
                if todo:
                    workers.append(_start())
                    enter(workers[-1])
    finally:
        selector.close()
        for worker in workers:
            worker.end()


# Clusters.


def dask(client: Any, job: Job, units: Sequence[Any]) -> Reports:
    """Runs units on the cluster of a ``dask.distributed.Client``.

    The job comes to each worker as a plugin, also to those that start later. What is scattered, and the result of a task, is lost
    with the workers that have it, and what needs it goes astray where they die in a row. Dask blames all units that a dead worker
    had in hand. Those that it gives up are run again at the end, one by one, where only the culprit can fail.
    """
    from distributed import WorkerPlugin, as_completed

    class Carrier(WorkerPlugin):  # type: ignore[misc]
        """Has the job in a worker."""

        name = f"cavalcade-{uuid4().hex}"

        def __init__(self) -> None:
            self.job = job

    client.register_plugin(Carrier())
    ahead = _AHEAD * max(sum(client.nthreads().values()), 1)
    # The units in hand by the keys of their futures.
    asked: dict[str, int] = {}
    todo, suspects = deque(range(len(units))), deque[int]()
    futures = as_completed()

    def ask(number: int, times: int) -> None:
        key = f"{Carrier.name}-{number}-{times}"
        asked[key] = number
        futures.add(client.submit(_attempt_on_dask, Carrier.name, number, units[number], key=key, pure=False))

    def submit() -> None:
        while todo and len(asked) < ahead:
            ask(todo.popleft(), 1)
        if suspects and not asked:
            ask(suspects.popleft(), 2)

    try:
        submit()
        for future in futures:
            number, is_suspect = asked.pop(future.key), future.key.endswith("-2")
            report = _outcome(future, number)
            if report is None and not is_suspect:
                suspects.append(number)
            else:
                yield report or Report(number, 0.0, _died("as Dask says"))
            future.release()
            submit()
    finally:
        # What runs cannot be stopped there, and goes to its end.
        client.cancel(list(futures.futures), force=True)
        client.unregister_worker_plugin(Carrier.name)


def _attempt_on_dask(carrier: str, number: int, unit: Any) -> Report:
    from distributed import get_worker

    plugin: Any = get_worker().plugins[carrier]
    return attempt(plugin.job, number, unit)


def _outcome(future: Any, number: int) -> Report | None:
    """The report of a unit that Dask has done with; none where it was lost with its workers."""
    try:
        report: Report = future.result()
    except CancelledError:
        return None
    except Exception as error:
        return None if type(error).__name__ == "KilledWorker" else Report(number, 0.0, _described(error))
    return report


_jobs: dict[str, Job] = {}


def _attempt_on_ray(name: str, holder: list[Any], number: int, unit: Any) -> Report:
    """Gets the job once in each worker: what is passed as it is would be unpacked for each unit."""
    import ray

    if name not in _jobs:
        _jobs.clear()
        _jobs[name] = ray.get(holder[0])
    return attempt(_jobs[name], number, unit)


def ray(job: Job, units: Sequence[Any]) -> Reports:
    """Runs units on Ray: on the cluster that this process is connected to, or else on one of this machine."""
    import ray
    from ray.exceptions import RayError, WorkerCrashedError

    if not ray.is_initialized():
        ray.init(include_dashboard=False, log_to_driver=False, logging_level=logging.WARNING)
    name, holder = uuid4().hex, [ray.put(job)]
    work = ray.remote(max_retries=ATTEMPTS - 1)(_attempt_on_ray)
    cores = max(int(ray.cluster_resources().get("CPU", 1)), 1)
    todo = iter(enumerate(units))
    numbers: dict[Any, int] = {}

    def submit(more: int) -> None:
        for number, unit in itertools.islice(todo, more):
            numbers[work.remote(name, holder, number, unit)] = number

    try:
        submit(_AHEAD * cores)
        while numbers:
            ended, _ = ray.wait(list(numbers), num_returns=1)
            for reference in ended:
                number = numbers.pop(reference)
                try:
                    yield ray.get(reference)
                except WorkerCrashedError:
                    yield Report(number, 0.0, _died("as Ray says"))
                except RayError as error:
                    yield Report(number, 0.0, _described(error))
                submit(1)
    finally:
        for reference in numbers:
            ray.cancel(reference, force=True)
