"""Traces: making them, and looking into them."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pyarrow.parquet

from . import _command


@dataclass(frozen=True)
class Process:
    """One process of a trace."""

    number: int
    command: tuple[str, ...]
    threads: int
    events: int
    peak_bytes: int | None
    """Most bytes asked for that were alive at once."""


@dataclass(frozen=True)
class Info:
    """What a trace says about its program as a whole. Sizes in bytes."""

    command: tuple[str, ...]
    program: str
    recorder: str
    seconds: float
    """From the first event to the last."""
    threads: int
    events: int
    peak_live: int
    """Most bytes asked for that were alive at once, in the process that had most."""
    peak_resident: int | None
    """Most bytes that were seen in memory at once, in that process."""
    file_bytes: int
    processes: tuple[Process, ...]
    damage: tuple[str, ...]
    """Parts of the file that cannot be read, in words; everything else is read."""


class Trace:
    """A recorded program: ``Trace("app.fht")``.

    Nothing is read until you ask for it; what was read is kept. ``info`` is a dataclass, ``events`` and ``sites`` are
    :class:`pyarrow.Table`.
    """

    def __init__(self, path: str | os.PathLike[str]):
        self.path = Path(path)
        if not self.path.is_file():
            raise _command.FreeholdError(f"{self.path}: there is no such file")

    def __repr__(self) -> str:
        return f"Trace({str(self.path)!r})"

    def __fspath__(self) -> str:
        return os.fspath(self.path)

    @cached_property
    def _described(self) -> dict:
        # Status 1 with JSON: the trace is damaged, and what is sound was read.
        text = _command.call(["info", self.path, "--json"], (0, 1), stdout=subprocess.PIPE)
        try:
            return json.loads(text.stdout)
        except ValueError:
            raise _command.refusal(text, ["info", self.path]) from None

    @cached_property
    def info(self) -> Info:
        """The program, its processes, and how much they had."""
        found = self._described
        header, total = found["header"], found["total"]
        processes = tuple(map(_process, found["processes"]))
        heaviest = max(found["processes"], key=lambda one: one["process"]["peak_bytes"] or 0, default=None)
        command = tuple(header["command"])
        return Info(
            command=command,
            program=os.path.basename(command[0]) if command else self.path.stem,
            recorder=header["recorder"],
            seconds=total["seconds"],
            threads=total["threads"],
            events=total["events"],
            peak_live=(heaviest or {}).get("process", {}).get("peak_bytes") or 0,
            peak_resident=(heaviest or {}).get("process", {}).get("peak_resident"),
            file_bytes=found["file_bytes"],
            processes=processes,
            damage=tuple(map(str, found["damage"])),
        )

    @cached_property
    def sites(self) -> pa.Table:
        """Who has malloc's memory: a row a function and line, the one that holds most at the peak first.

        A trace without call stacks has no rows. The callers stand in one column, the next one first, separated by " < ".
        """
        found = self._described["sites"] or {"sites": []}
        return pa.Table.from_pylist([_flat_site(site) for site in found["sites"]])

    @cached_property
    def events(self) -> pa.Table:
        """Every event of the trace, a row each, in the order of time."""
        with tempfile.TemporaryDirectory(prefix="freehold-") as folder:
            file = Path(folder, "events.parquet")
            _command.call(["export", self.path, "--format", "parquet", "-o", file], (0, 1), stdout=subprocess.DEVNULL)
            return pyarrow.parquet.read_table(file, memory_map=False)


def _process(found: dict) -> Process:
    process = found["process"]
    return Process(
        number=process["id"],
        command=tuple(process["command"]),
        threads=process["threads"],
        events=found["events"],
        peak_bytes=process["peak_bytes"],
    )


def _flat_site(site: dict) -> dict:
    """Without the series over time, which is a table of its own."""
    flat = {key: value for key, value in site.items() if not isinstance(value, (list, dict))}
    return {**flat, "callers": " < ".join(site["callers"])}


def record(
    command: Sequence[str | os.PathLike[str]],
    output: str | os.PathLike[str] | None = None,
    stacks: Literal["allocations", "all", "off"] = "allocations",
) -> Trace:
    """Runs a program and records its allocations.

    ``output`` is the trace's file, by default the program's name with ``.fht`` in the current folder. The program keeps its
    standard output and error; its exit status does not matter.

    Raises :class:`FreeholdError` if the program cannot be started or nothing can be recorded.
    """
    if isinstance(command, str) or not command:
        raise TypeError('a list of words is wanted, such as ["ls", "-l"]')
    program = Path(command[0]).name
    target = Path(output if output is not None else f"{program}.fht")
    words = ["record", "--stacks", stacks, "-o", target, "--", *command]
    before = _identity(target)
    done = subprocess.run([_command.path(), *words], stderr=subprocess.PIPE, text=True, errors="replace")
    # The status is the program's, so it is the file that tells whether there is a recording.
    if _identity(target) in (None, before):
        raise _command.refusal(done, words)
    return Trace(target)


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns
