"""Cells, and measured replays, on a Dask cluster.

A task of a sweep is one line of ``freehold sweep --print``: a trace under one limit on all policies. A worker runs it in a folder of its own
and sends the cells' files back; only the client writes into the sweep's folder. So it does not matter what a worker
leaves behind, or which one did a cell: files of the same name must be the same bytes, and that is checked.

A measured replay needs a machine of its own: a worker with the resource `measure=1`, which it takes.
"""

from __future__ import annotations

import functools
import hashlib
import os
import shlex
import subprocess
import tempfile
import threading
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from . import _command, _measure
from ._sweep import fetch

try:
    import distributed
except ImportError:
    raise _command.FreeholdError("a cluster needs Dask distributed; pip install 'freehold[dask]'") from None

#: The resource of workers on whose machine nothing else runs.
_MEASURE = "measure"

_ONE_FETCH = threading.Lock()


def do_cells(words: list[str], out: str, client: distributed.Client | str, urls: dict[str, str]) -> None:
    """Does what is missing of a sweep; ``urls`` says where the traces come from that lie elsewhere."""
    tasks = [shlex.split(line)[1:] for line in _command.output([*words, "--print"]).splitlines()]
    if not tasks:
        return
    with _connected(client) as cluster:
        version = _same_version(cluster)
        traces = sorted({trace for task in tasks if (trace := _trace(task)) and os.path.isfile(trace)})
        _Sweep(cluster, out, version, _sources(cluster, traces, urls)).run(tasks)


def do_measurements(paths: list[str], given: tuple, client: distributed.Client | str, urls: dict[str, str]) -> list[pa.Table]:
    """The rows of each trace, each measured by a worker that has its machine for itself."""
    with _connected(client) as cluster:
        version = _same_version(cluster)
        _need_machines(cluster)
        sources = _sources(cluster, [path for path in paths if os.path.isfile(path)], urls)
        futures = [
            cluster.submit(_measured, path, sources.get(path), version, given, resources={_MEASURE: 1}, pure=False) for path in paths
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
def _connected(client: distributed.Client | str):
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


def _sources(cluster: distributed.Client, traces: list[str], urls: dict[str, str]) -> dict[str, object]:
    """For each trace where workers get it from: None if all of them see the file, its URL, or its bytes."""
    local = [trace for trace in traces if trace not in urls]
    seen = cluster.run(_sizes, local).values()
    sizes = _sizes(local)
    sources: dict[str, object] = {trace: urls.get(trace) for trace in traces}
    for at, trace in enumerate(local):
        if any(of_worker[at] != sizes[at] for of_worker in seen):
            sources[trace] = cluster.scatter(Path(trace).read_bytes(), hash=True)
    return sources


def _sizes(paths: list[str]) -> list[int]:
    return [os.path.getsize(path) if os.path.isfile(path) else -1 for path in paths]


def _trace(task: list[str]) -> str | None:
    return task[task.index("--traces") + 1] if "--traces" in task else None


class _Sweep:
    """Tasks under way, and the workers on which each has failed."""

    def __init__(self, cluster: distributed.Client, out: str, version: str, sources: dict[str, object]):
        self.cluster, self.out, self.version, self.sources = cluster, out, version, sources
        self.failed_on: dict[str, set[str]] = {}
        self.given_up: list[str] = []

    def run(self, tasks: list[list[str]]) -> None:
        """Does all of them; a task that fails on every worker is told of when the others are done."""
        # The futures are kept until they are done: Dask drops the work of those that nobody holds.
        under_way = {self._submit(task): task for task in tasks}
        finished = distributed.as_completed(under_way)
        for future in finished:
            task = under_way.pop(future)
            answer = self._answer(future)
            if "cells" in answer:
                _store(self.out, answer["cells"])
            elif again := self._elsewhere(task, answer):
                under_way[again] = task
                finished.add(again)
        if self.given_up:
            more = f" (and {len(self.given_up) - 1} more)" if len(self.given_up) > 1 else ""
            raise _command.FreeholdError(f"no worker could do {self.given_up[0]}{more}; what was done is kept")

    def _submit(self, task: list[str], workers: list[str] | None = None) -> distributed.Future:
        source = self.sources.get(_trace(task) or "")
        # Retries of killed workers are Dask's own; the folder named --out is the client's business.
        return self.cluster.submit(_do, task, source, self.version, workers=workers, pure=False)

    def _answer(self, future: distributed.Future) -> dict:
        try:
            return future.result()
        except Exception as error:
            return {"failed": f"{type(error).__name__}: {error}", "worker": None}

    def _elsewhere(self, task: list[str], answer: dict) -> distributed.Future | None:
        words = shlex.join(task)
        failed_on = self.failed_on.setdefault(words, set())
        failed_on.add(answer["worker"])
        # Not `scheduler_info`: it returns a field that Dask's own timer overwrites, without any workers.
        others = [worker for worker in self.cluster.nthreads() if worker not in failed_on]
        if answer["worker"] is None or not others:
            self.given_up.append(f"`freehold {words}`: {answer['failed']}")
            return None
        return self._submit(task, others)


def _do(task: list[str], source: object, version: str) -> dict:
    """On a worker: does the cells, and gives their files; or why not."""
    worker = distributed.get_worker()
    try:
        _refuse_another(version)
        with tempfile.TemporaryDirectory(prefix="freehold-", dir=worker.local_directory) as folder:
            words = list(task)
            words[words.index("--out") + 1] = folder
            if source is not None:
                at = words.index("--traces") + 1
                words[at] = os.fspath(_fetched(source, words[at], worker.local_directory))
            environment = {**os.environ, "TMPDIR": folder}
            words += ["--workers", "1", "--json"]
            done = _command.call(words, (0, 1), stdout=subprocess.PIPE, env=environment)
            if not done.stdout:
                raise _command.refusal(done, words)
            cells = Path(folder, "cells")
            return {"cells": {os.fspath(f.relative_to(cells)): f.read_bytes() for f in cells.glob("*/*.json")}}
    except (OSError, _command.FreeholdError) as error:
        return {"failed": str(error), "worker": worker.address}


def _measured(path: str, source: object, version: str, given: tuple) -> pa.Table:
    """On a worker: measures."""
    _refuse_another(version)
    here = path if source is None else _fetched(source, path, distributed.get_worker().local_directory)
    return _measure.rows(here, os.path.basename(path), *given)


def _fetched(source: object, path: str, folder: str) -> Path:
    """The trace as a file of this worker, fetched once. Its folder is named by where it lay with the client."""
    target = Path(folder, "freehold-traces", path.strip("/").replace("/", "-"), os.path.basename(path))
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


def _store(out: str, cells: dict[str, bytes]) -> None:
    """Puts cells into the sweep's folder. One that is there must be the same."""
    for name, content in cells.items():
        target = Path(out, "cells", name)
        if target.exists():
            if target.read_bytes() != content:
                raise _command.FreeholdError(f"{target}: two workers found different results for the same cell")
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=target.parent, delete=False) as part:
            try:
                part.write(content)
                part.flush()
                os.replace(part.name, target)
            except OSError as error:
                os.unlink(part.name)
                raise _command.FreeholdError(f"{target} cannot be written: {error}; what was done is kept") from error
