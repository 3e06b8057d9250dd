"""Cells, and measured replays, on a Dask cluster.

A task of a sweep is one line of ``freehold sweep --print``: a trace under one limit on all policies. A worker runs it in a folder of
its own and sends the cells' files back; only the client writes into the sweep's store. So it does not matter what a worker
leaves behind, or which one did a cell: files of the same name must be the same bytes, and that is checked.

What one worker could not do, the others try. A cell that no worker could do is a row with its error; the next call tries it again.

A measured replay needs a machine of its own: a worker with the resource `measure=1`, which it takes.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import shlex
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from . import _command, _measure
from ._progress import Progress
from ._store import Folder
from ._sweep import fetch

try:
    import distributed
except ImportError:
    raise _command.FreeholdError("a cluster needs Dask distributed; pip install 'freehold[dask]'") from None

#: The resource of workers on whose machine nothing else runs.
_MEASURE = "measure"

#: Where a trace comes from that every worker sees.
_NOWHERE: tuple[object, str] = (None, "")

_ONE_FETCH = threading.Lock()


@dataclass(frozen=True)
class _Task:
    """A line of ``freehold sweep --print``."""

    words: list[str]
    #: The names of its cells that are missing.
    cells: list[str]
    #: The files of those that a worker has done, so that the next one does the rest only.
    done: dict[str, bytes] = field(default_factory=dict)

    @property
    def trace(self) -> str | None:
        return self.words[self.words.index("--traces") + 1] if "--traces" in self.words else None


def do_cells(
    words: list[str], store: Folder, client: distributed.Client | str, urls: dict[str, str], progress: Progress
) -> dict[str, str]:
    """Does what is missing of a sweep; ``urls`` says where the traces come from that lie elsewhere.

    Gives the reasons of those cells that no worker could do, by their names.
    """
    lines = map(json.loads, _command.output([*words, "--print", "--json"]).splitlines())
    tasks = [_Task(shlex.split(line["command"])[1:], line["cells"]) for line in lines]
    if not tasks:
        return {}
    with _connected(client) as cluster:
        version = _same_version(cluster)
        sources = _sources(cluster, sorted({task.trace for task in tasks if task.trace}), urls)
        return _Sweep(cluster, store, version, sources, progress).run(tasks)


def do_measurements(paths: list[str], given: tuple, client: distributed.Client | str, urls: dict[str, str]) -> list[pa.Table]:
    """The rows of each trace, each measured by a worker that has its machine for itself."""
    with _connected(client) as cluster:
        version = _same_version(cluster)
        _need_machines(cluster)
        sources = _sources(cluster, [path for path in paths if os.path.isfile(path)], urls)
        futures = [
            cluster.submit(_measured, path, *sources.get(path, _NOWHERE), version, given, resources={_MEASURE: 1}, pure=False)
            for path in paths
        ]
        try:
            return [_rows(future, path) for future, path in zip(futures, paths)]
        finally:
            # After Ctrl-C nobody waits for the rest.
            cluster.cancel(futures)


def _rows(future: distributed.Future, path: str) -> pa.Table:
    try:
        return future.result()
    except Exception as error:
        return _measure.failed(os.path.basename(path), str(error) or type(error).__name__)


def _need_machines(cluster: distributed.Client) -> None:
    """At least one worker has the resource, and no machine has more than one of it."""
    hosts = cluster.run_on_scheduler(_measuring)
    if not hosts:
        raise _command.FreeholdError(
            f"no worker may be measured on: start one per machine with `dask worker SCHEDULER --resources {_MEASURE}=1`"
        )
    for host in hosts:
        if hosts.count(host) > 1:
            raise _command.FreeholdError(f"{hosts.count(host)} replays at once on {host} would measure each other: give one worker there `{_MEASURE}=1`")


def _measuring(dask_scheduler: distributed.Scheduler) -> list[str]:
    """On the scheduler: the hosts of workers that may be measured on, as often as there is something of the resource."""
    return [state.host for state in dask_scheduler.workers.values() for _ in range(int(state.resources.get(_MEASURE, 0)))]


@contextmanager
def _connected(client: distributed.Client | str) -> Iterator[distributed.Client]:
    if not isinstance(client, str):
        yield client
        return
    try:
        connected = distributed.Client(client, timeout=10, set_as_default=False)
    except (OSError, ValueError) as error:
        raise _command.FreeholdError(f"no scheduler answers at {client}: {error}") from error
    with connected:
        yield connected


@functools.cache
def _version() -> str:
    """The hash of the command: builds of one release may differ, and cells of two builds are never mixed."""
    return hashlib.sha256(Path(_command.path()).read_bytes()).hexdigest()[:16]


def _same_version(cluster: distributed.Client) -> str:
    """The version of everyone; another one would find other cells."""
    own = _version()
    try:
        found = cluster.run(_version, on_error="return")
    except Exception as error:
        raise _command.FreeholdError(f"the workers cannot be asked for their version: {error}") from error
    others = {worker: answer for worker, answer in found.items() if answer != own}
    if others:
        worker, answer = next(iter(others.items()))
        raise _command.FreeholdError(
            f"{len(others)} of {len(found)} workers have another freehold than this client ({own}); {worker} answers: "
            f"{answer}. Install the same wheel everywhere"
        )
    return own


def _refuse_another(version: str) -> None:
    """On a worker, which may have joined since the client asked all of them."""
    if _version() != version:
        raise _command.FreeholdError(f"this worker has freehold {_version()}, the client {version}")


def _sources(cluster: distributed.Client, traces: list[str], urls: dict[str, str]) -> dict[str, tuple[object, str]]:
    """For each trace where workers get it from (None if all of them see the file; its URL; or its bytes), and the hash of its content."""
    local = [trace for trace in traces if trace not in urls]
    seen = cluster.run(_sizes, local).values()
    sizes = _sizes(local)
    sources: dict[str, tuple[object, str]] = {trace: (urls[trace], _digest(trace)) for trace in traces if trace in urls}
    for at, trace in enumerate(local):
        if any(of_worker[at] != sizes[at] for of_worker in seen):
            sources[trace] = cluster.scatter(Path(trace).read_bytes(), hash=True), _digest(trace)
        else:
            sources[trace] = _NOWHERE
    return sources


def _digest(path: str) -> str:
    found = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            found.update(block)
    return found.hexdigest()[:16]


def _sizes(paths: list[str]) -> list[int]:
    return [os.path.getsize(path) if os.path.isfile(path) else -1 for path in paths]


class _Sweep:
    """Tasks under way, and the workers on which each has failed."""

    def __init__(
        self, cluster: distributed.Client, store: Folder, version: str, sources: dict[str, tuple[object, str]], progress: Progress
    ):
        self.cluster, self.store, self.version, self.sources, self.progress = cluster, store, version, sources, progress
        self.failed_on: dict[str, set[str]] = {}
        self.given_up: dict[str, str] = {}

    def run(self, tasks: list[_Task]) -> dict[str, str]:
        """Does all of them, and gives the reasons of the cells that no worker could do."""
        done, total = 0, sum(len(task.cells) for task in tasks)
        # The futures are kept until they are done: Dask drops the work of those that nobody holds.
        under_way = {self._submit(task): task for task in tasks}
        # The client need not be the default one, of which there is none after `client="tcp://…"`.
        finished = distributed.as_completed(under_way, loop=self.cluster.loop)
        try:
            for future in finished:
                task = under_way.pop(future)
                answer = _answer(future, task)
                # Left to the garbage collector, it is let go in a finalizer, which swallows Ctrl-C; and most of this thread's time is there.
                future.release()
                self.store.keep(answer.cells)
                left = self._left(task, answer)
                if again := left and self._elsewhere(left, answer):
                    under_way[again] = left
                    finished.add(again)
                done += len(task.cells) - (len(left.cells) if left and again else 0)
                self.progress.set(done, total)
                self.store.beat()
        finally:
            # After Ctrl-C nobody waits for the rest.
            self.cluster.cancel(list(under_way))
        return self.given_up

    def _submit(self, task: _Task, workers: list[str] | None = None) -> distributed.Future:
        source, digest = self.sources.get(task.trace or "", _NOWHERE)
        # Tasks of killed workers are tried again by Dask itself. Workers that leave must not take the task along.
        others = workers is not None
        return self.cluster.submit(
            _do, task.words, task.done, source, digest, self.version, workers=workers, allow_other_workers=others, pure=False
        )

    def _left(self, task: _Task, answer: _Answer) -> _Task | None:
        """The task with those of its cells that the answer has not."""
        have = {Path(name).stem for name in answer.cells}
        cells = [name for name in task.cells if name not in have]
        return _Task(task.words, cells, task.done | answer.cells) if cells else None

    def _elsewhere(self, task: _Task, answer: _Answer) -> distributed.Future | None:
        """The task once more, on workers that have not tried it; if there are none, its cells are given up."""
        failed_on = self.failed_on.setdefault(shlex.join(task.words), set())
        failed_on.add(answer.worker or "")
        # Not `scheduler_info`: it returns a field that Dask's own timer overwrites, without any workers.
        others = [worker for worker in self.cluster.nthreads() if worker not in failed_on]
        if answer.worker is not None and others:
            return self._submit(task, others)
        for name in task.cells:
            self.given_up[name] = f"no worker could do it: {answer.errors.get(name, answer.why)}"
        return None


@dataclass(frozen=True)
class _Answer:
    """What a worker found."""

    #: The files of cells, by their names within the folder of cells.
    cells: dict[str, bytes]
    #: Why cells are not there, by their names; ``why`` is the reason for all others.
    errors: dict[str, str]
    why: str
    #: The worker's address; None if trying another one would be in vain.
    worker: str | None


def _answer(future: distributed.Future, task: _Task) -> _Answer:
    try:
        return future.result()
    except distributed.KilledWorker:
        why = "the workers that tried it ended, as they do when memory is short; the same call tries it again"
    except Exception as error:
        why = f"{type(error).__name__}: {error}; the same call tries it again"
    return _Answer({}, {}, why, None)


def _do(words: list[str], done: dict[str, bytes], source: object, digest: str, version: str) -> _Answer:
    """On a worker: does the cells that are not done, and gives their files; or why not."""
    worker = distributed.get_worker()
    try:
        _refuse_another(version)
        with tempfile.TemporaryDirectory(prefix="freehold-", dir=worker.local_directory) as folder:
            Folder(Path(folder)).keep(done)
            return _done(_here(words, source, digest, worker.local_directory, folder), folder, worker.address)
    except (OSError, _command.FreeholdError) as error:
        return _Answer({}, {}, f"{error}; the same call tries it again", worker.address)


def _here(words: list[str], source: object, digest: str, local: str, folder: str) -> list[str]:
    """The command as it is run on this worker."""
    here = list(words)
    here[here.index("--out") + 1] = folder
    if source is not None:
        at = here.index("--traces") + 1
        here[at] = os.fspath(_fetched(source, digest, here[at], local))
    return [*here, "--workers", "1", "--json"]


def _done(words: list[str], folder: str, address: str) -> _Answer:
    done = _command.call(words, (0, 1), stdout=subprocess.PIPE, env={**os.environ, "TMPDIR": folder})
    if not done.stdout:
        raise _command.refusal(done, words)
    summary = json.loads(done.stdout)
    cells = Path(folder, "cells")
    files = {os.fspath(file.relative_to(cells)): file.read_bytes() for file in cells.glob("*/*.json")}
    # A cell of another name than the client's is of another trace.
    why = summary["first_error"] or "the trace that this worker sees is not the client's"
    return _Answer(files, summary["passing"], why, address)


def _measured(path: str, source: object, digest: str, version: str, given: tuple) -> pa.Table:
    """On a worker: measures."""
    _refuse_another(version)
    here = path if source is None else _fetched(source, digest, path, distributed.get_worker().local_directory)
    return _measure.rows(here, os.path.basename(path), *given)


def _fetched(source: object, digest: str, path: str, folder: str) -> Path:
    """The trace as a file of this worker, fetched once. Its folder is named by its content."""
    target = Path(folder, "freehold-traces", digest, os.path.basename(path))
    with _ONE_FETCH:
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            part = target.with_suffix(f".{os.getpid()}.part")
            if isinstance(source, bytes):
                part.write_bytes(source)
            else:
                fetch(str(source), part)
            part.replace(target)
    return target
