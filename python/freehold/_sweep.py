"""Sweeps, on this machine's cores or on a Dask cluster."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from . import _command

if TYPE_CHECKING:
    import pyarrow.dataset as ds
    from distributed import Client


def sweep(
    traces: str | os.PathLike[str] | Iterable[str | os.PathLike[str]] | None = None,
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
    way the results are the same bytes, and go to ``out``, where the next call of the same sweep finds what is done.

    Gives the dataset: one flat row a cell. A cell that could not be done (a wrong trace, policy or setting) has its reason in ``error``.

    Raises :class:`FreeholdError` if the sweep as a whole cannot go on: what was done stays in ``out``.
    """
    if study is None and traces is None:
        raise TypeError("sweep() wants traces, or a study")
    with tempfile.TemporaryDirectory(prefix="freehold-") as folder:
        urls: dict[str, str] = {}
        words = _words(study, quick, set, out)
        if study is None:
            words += ["--on", _command.listed(on), "--limit", _limits(limit)]
            words += ["--traces", *local_paths(traces, Path(folder), urls)]
        if client is not None:
            from . import _cluster

            _cluster.do_cells(words, os.fspath(out), client, urls)
        words += ["--workers", str(workers)] if workers is not None else []
        # Status 1 with a summary: some cells have errors, which are rows.
        done = _command.call([*words, "--json"], (0, 1), stdout=subprocess.PIPE)
        try:
            summary = json.loads(done.stdout)
        except ValueError:
            raise _command.refusal(done, words) from None
    # It takes pandas along, where there is one: a second for those who never sweep.
    import pyarrow.dataset as ds

    return ds.dataset(summary["dataset"], format="parquet")


def _words(study: str | None, quick: bool, set: Mapping[str, object] | None, out: str | os.PathLike[str]) -> list[str]:
    words = ["sweep", "--out", os.fspath(out)]
    words += ["--study", study] if study is not None else []
    words += ["--quick"] if quick else []
    for name, values in (set or {}).items():
        words += ["--set", f"{name}={_values(values)}"]
    return words


def _values(values: object) -> str:
    one = isinstance(values, (str, bytes)) or not isinstance(values, Iterable)
    return str(values) if one else _command.listed(values)


def _limits(limits: object) -> str:
    one = isinstance(limits, str) or not isinstance(limits, Iterable)
    return ",".join("none" if value is None else str(value) for value in ([limits] if one else limits))


def local_paths(traces: object, folder: Path, urls: dict[str, str]) -> list[str]:
    """Paths and patterns as they are; what lies elsewhere is fetched, and ``urls`` says what from where."""
    one = isinstance(traces, (str, os.PathLike))
    paths = []
    for number, trace in enumerate([traces] if one else traces):
        name = os.fspath(trace)
        if "://" in name:
            path = folder / str(number) / name.rsplit("/", 1)[-1]
            path.parent.mkdir()
            fetch(name, path)
            urls[os.fspath(path)] = name
            name = os.fspath(path)
        paths.append(name)
    if not paths:
        raise TypeError("at least one trace is needed")
    return paths


def fetch(url: str, path: Path) -> None:
    """Copies what fsspec reads at ``url``."""
    try:
        import fsspec
    except ImportError:
        raise _command.FreeholdError(f"{url}: URLs need fsspec; pip install 'freehold[dask]'") from None
    try:
        with fsspec.open(url, "rb") as source, open(path, "wb") as target:
            while block := source.read(1 << 20):
                target.write(block)
    except Exception as error:
        raise _command.FreeholdError(f"{url} cannot be read: {type(error).__name__}: {error}") from error
