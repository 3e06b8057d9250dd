"""Measured replays of many traces, on this machine or on machines of a Dask cluster."""

from __future__ import annotations

import glob
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from . import _command, _replay
from ._sweep import Traces, local_paths

if TYPE_CHECKING:
    from distributed import Client


def measure(
    traces: Traces,
    on: str | Iterable[str] = "allocators",
    limit: int | str | None = None,
    runs: int | None = None,
    client: Client | str | None = None,
) -> pa.Table:
    """Replays every trace on real allocators, which run: one trace at a time on a machine.

    ``traces`` are files, patterns such as ``"traces/*.fht"``, and URLs that fsspec reads; ``on``, ``limit`` and ``runs`` are those of :func:`replay`.

    ``client`` is a Dask client, or a scheduler's address. A machine that may be measured on is one worker with the resource
    ``measure``: ``dask worker SCHEDULER --resources measure=1``. Nothing else should run there. Without a client, this machine
    is measured.

    Gives the rows of :func:`replay` for each trace, in order, and in ``machine`` the name of the machine that replayed it: times of
    two machines cannot be compared. A trace that could not be replayed is one row with its reason in ``error``.

    Raises :class:`FreeholdError` if the cluster has no machine to measure on.
    """
    given = (on if isinstance(on, str) else _command.listed(on), limit, runs)
    with tempfile.TemporaryDirectory(prefix="freehold-") as folder:
        urls: dict[str, str] = {}
        unread: dict[str, str] = {}
        paths = [path for given_path in local_paths(traces, Path(folder), urls, unread) for path in _files(given_path)]
        read = [path for path in paths if path not in unread]
        if client is None:
            measured = [rows(path, Path(path).name, *given) for path in read]
        else:
            from . import _cluster

            measured = _cluster.do_measurements(read, given, client, urls)
        in_order = iter(measured)
        tables = [failed(Path(path).name, unread[path]) if path in unread else next(in_order) for path in paths]
    return pa.concat_tables(tables, promote_options="permissive")


def _files(path: str) -> list[str]:
    """What a pattern stands for; a file that is not there is told of when its turn comes."""
    return [path] if os.path.exists(path) else sorted(glob.glob(path)) or [path]


def failed(name: str, reason: str) -> pa.Table:
    """The row of a trace that could not be replayed."""
    return pa.Table.from_pylist([{"trace": name, "error": reason}])


def rows(path: str | os.PathLike[str], name: str, on: str, limit: int | str | None, runs: int | None) -> pa.Table:
    """The rows of one trace, measured here; one row with the error if there are none."""
    try:
        found = _replay.replay(path, on, limit, runs=runs)
    except _command.FreeholdError as error:
        return failed(name, str(error).replace(os.fspath(path), name))
    return found.add_column(1, "machine", pa.array([os.uname().nodename] * found.num_rows))
