"""Replays as tidy tables: a row a policy or allocator, trace and limit as columns, nothing nested."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from . import _command


def replay(
    trace: str | os.PathLike[str],
    on: str | Iterable[str] = "policies",
    limit: int | str | None = None,
    set: Mapping[str, object] | None = None,
    process: int | None = None,
    runs: int | None = None,
) -> pa.Table:
    """Replays a trace.

    ``on`` are policies, allocators and paths of libraries, or ``policies``, ``malloc`` (Freehold's, simulated), ``models``,
    ``allocators``, ``all``. ``limit`` is the memory that each may have, in bytes or as ``"64M"``. ``set`` changes decisions of the
    simulated malloc. ``runs`` are the timing runs of measured allocators.

    One row a policy or allocator. Columns of what it was not asked or cannot know are null.
    """
    words = ["replay", trace, "--on", _command.listed(on), *_options(limit, process, runs), "--json"]
    for name, value in (set or {}).items():
        words += ["--set", f"{name}={value}"]
    # Status 1 with JSON: the trace is damaged, and what is sound was replayed.
    done = _command.call(words, (0, 1), stdout=subprocess.PIPE)
    return _table(done, done.stdout, words, Path(trace).name, limit)


def compare(
    command: Sequence[str | os.PathLike[str]] | None = None,
    on: str | Iterable[str] = "all",
    limit: int | str | None = None,
    report: str | os.PathLike[str] = "report.html",
    keep: str | os.PathLike[str] | None = None,
    runs: int | None = None,
) -> pa.Table:
    """Records a program, replays it everywhere, writes the report, and gives the rows of :func:`replay`.

    Without a command it is the bundled program. ``keep`` keeps the trace under this name.
    """
    with tempfile.TemporaryDirectory(prefix="freehold-") as folder:
        results = Path(folder, "results.json")
        words: list[str | os.PathLike[str]] = ["compare", "--on", _command.listed(on), *_options(limit, None, runs)]
        words += ["--output", report, "--results", results]
        words += ["--keep", keep] if keep is not None else []
        words += ["--", *command] if command else []
        done = _command.call(words, (0, 1), stdout=subprocess.DEVNULL)
        text = results.read_text() if results.exists() else ""
    name = Path(keep).name if keep is not None else Path(command[0]).name if command else "freehold-radiosity"
    return _table(done, text, words, name, limit)


def _options(limit: int | str | None, process: int | None, runs: int | None) -> list[str]:
    given = {"--limit": limit, "--process": process, "--runs": runs}
    return [word for name, value in given.items() if value is not None for word in (name, str(value))]


def _table(
    done: subprocess.CompletedProcess[str], text: str, words: _command.Words, trace: str, limit: int | str | None
) -> pa.Table:
    try:
        found = json.loads(text)
    except ValueError:
        raise _command.refusal(done, words) from None
    head = {"trace": trace, "limit": None if limit is None else str(limit)}
    rows = [{**head, "on": one.pop("name"), "error": None, **_flat(one)} for one in found["results"]]
    rows += [{**head, "on": one["name"], "error": one["reason"]} for one in found.get("refused", [])]
    names = list(dict.fromkeys(name for row in rows for name in row))
    return pa.Table.from_pydict({name: [row.get(name) for row in rows] for name in names})


def _flat(outcome: Mapping[str, object], before: str = "") -> dict[str, object]:
    """Groups become prefixes; series over time are left out."""
    flat: dict[str, object] = {}
    for name, value in outcome.items():
        if isinstance(value, Mapping):
            flat.update(_flat(value, f"{before}{name}_"))
        elif not isinstance(value, list):
            flat[before + name] = value
    return flat
