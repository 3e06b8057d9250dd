"""Sweeps, on this machine's cores or on a Dask cluster."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from . import _command, _store
from ._progress import Progress

if TYPE_CHECKING:
    import pyarrow.dataset as ds
    from distributed import Client

#: A file, a pattern or a URL; or several.
Traces: TypeAlias = "str | os.PathLike[str] | Iterable[str | os.PathLike[str]]"


def sweep(
    traces: Traces | None = None,
    on: str | Iterable[str] = "policies,malloc",
    limit: object | Iterable[object] = "none",
    set: Mapping[str, object] | None = None,
    study: str | None = None,
    quick: bool = False,
    out: str | os.PathLike[str] = "sweep",
    client: Client | str | None = None,
    workers: int | None = None,
) -> ds.Dataset:
    """Replays every trace on every policy under every limit with every combination of settings.

    ``traces`` are files, patterns such as ``"traces/*.fht"``, and URLs that fsspec reads, such as ``"s3://bucket/app.fht"``. ``limit``
    are numbers (times the most that a trace has alive), texts such as ``"64M"``, and ``"none"``. ``set`` maps a setting to its values:
    a list, or ``range(1, 101)``. With ``study`` (``"banks"``, ``"dmrt"``, ``"mesh"``) the study is run with each combination instead.

    ``client`` is a Dask client, or a scheduler's address; without it the cells are done on ``workers`` cores of this machine. Either
    way the results are the same bytes, and go to ``out``, a folder or a URL that fsspec writes, such as ``"s3://bucket/sweep"``. The
    next call of the same sweep finds there what is done. On a terminal a line says how much is done and how long the rest takes.

    Gives the dataset: one flat row a cell. A cell that could not be done has its reason in ``error``: a wrong trace, policy or setting;
    or, and then the next call tries it again, a trace that cannot be read, memory or a disk that was short on every worker.

    Raises :class:`FreeholdError` if the sweep as a whole cannot go on: what was done stays in ``out``.
    """
    if study is None and traces is None:
        raise TypeError("sweep() wants traces, or a study")
    with tempfile.TemporaryDirectory(prefix="freehold-") as folder:
        scratch = Path(folder)
        with _store.opened(out, scratch) as store, Progress() as progress:
            urls: dict[str, str] = {}
            unread: dict[str, str] = {}
            words = _words(study, quick, set, store.folder)
            if traces is not None and study is None:
                words += ["--on", _command.listed(on), "--limit", _limits(limit)]
                words += ["--traces", *local_paths(traces, scratch, urls, unread)]
            not_done: dict[str, str] = {}
            if client is not None:
                from . import _cluster

                not_done = _cluster.do_cells(words, store, client, urls, progress)
            errors = scratch / "errors.json"
            errors.write_text(json.dumps({"traces": unread, "cells": not_done}))
            words += ["--workers", str(workers)] if workers is not None else []

            def each(done: int, total: int) -> None:
                progress.set(done, total)
                store.beat()

            # Status 1 with a summary: some cells have errors, which are rows.
            words += ["--errors", os.fspath(errors), "--json"]
            done = _command.counted(words, (0, 1), each)
            if not done.stdout:
                raise _command.refusal(done, words)
        return store.dataset()


def _words(study: str | None, quick: bool, set: Mapping[str, object] | None, out: str | os.PathLike[str]) -> list[str]:
    words = ["sweep", "--out", os.fspath(out)]
    words += ["--study", study] if study is not None else []
    words += ["--quick"] if quick else []
    for name, values in (set or {}).items():
        words += ["--set", f"{name}={_values(values)}"]
    return words


def _values(values: object) -> str:
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        return str(values)
    return _command.listed(values)


def _limits(limits: object) -> str:
    several = [limits] if isinstance(limits, str) or not isinstance(limits, Iterable) else limits
    return ",".join("none" if value is None else str(value) for value in several)


def local_paths(traces: Traces, folder: Path, urls: dict[str, str], unread: dict[str, str]) -> list[str]:
    """Paths and patterns as they are. What lies elsewhere is fetched: ``urls`` says what from where, ``unread`` what could not be."""
    paths = []
    for number, trace in enumerate([traces] if isinstance(traces, (str, os.PathLike)) else traces):
        name = os.fspath(trace)
        if "://" in name:
            path = os.fspath(folder / str(number) / name.rsplit("/", 1)[-1])
            if any(letter in path for letter in "*?["):
                raise _command.FreeholdError(f"{name}: patterns are of files; list the URLs one by one")
            os.mkdir(os.path.dirname(path))
            urls[path] = name
            try:
                fetch(name, Path(path))
            except _command.FreeholdError as error:
                Path(path).unlink(missing_ok=True)
                unread[path] = f"{error}; the same call tries it again"
            name = path
        paths.append(name)
    if not paths:
        raise TypeError("at least one trace is needed")
    return paths


def fetch(url: str, path: Path) -> None:
    """Copies what fsspec reads at ``url``."""
    files, source = _store.filesystem(url)
    with _store.told(f"{url} cannot be read"):
        files.get_file(source, os.fspath(path))
