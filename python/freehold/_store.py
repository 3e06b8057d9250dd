"""Where a sweep keeps its cells and its dataset: a folder, or a URL that fsspec writes.

The command works in a folder. For a URL that is a temporary one: the cells that lie at the URL are copied into it first, and new
cells go to the URL every few seconds and at the end, whatever the end is. So a client that is killed loses seconds of work.

A cell's file is whole or counts as missing. A cell that two workers did must be the same bytes.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import _command

if TYPE_CHECKING:
    import pyarrow.dataset as ds

#: Seconds between two copies of new cells to a URL.
_BEAT = 5.0

#: Files that are copied at once.
_BATCH = 500


@contextmanager
def opened(out: str | os.PathLike[str], scratch: Path) -> Iterator[Folder]:
    """The store at ``out``; ``scratch`` is a temporary folder."""
    place = os.fspath(out)
    store = Remote(place, scratch / "out") if "://" in place else Folder(Path(place))
    try:
        yield store
    finally:
        store.end()


class Folder:
    """A sweep's folder on this machine."""

    def __init__(self, folder: Path):
        self.folder = folder

    def keep(self, cells: Mapping[str, bytes]) -> None:
        """Puts cells into the folder, each by its file's name within ``cells``."""
        for name, content in cells.items():
            target = Path(self.folder, "cells", name)
            if target.exists() and _is_whole(other := target.read_bytes()):
                _compare(os.fspath(target), content, other)
            else:
                _replace(target, content)

    def beat(self) -> None:
        """Is called now and then while cells are done."""

    def end(self) -> None:
        """Is called when no more cells will be done."""

    def dataset(self) -> ds.Dataset:
        """All cells, which the command has written there."""
        # It takes pandas along, where there is one: a second for those who never sweep.
        import pyarrow.dataset as ds

        return ds.dataset(self.folder / "sweep.parquet", format="parquet")


class Remote(Folder):
    """A folder that is copied to a URL."""

    def __init__(self, url: str, folder: Path):
        super().__init__(folder)
        self.url = url
        self.files, self.root = filesystem(url)
        self.due = time.monotonic() + _BEAT
        #: Names of cells that are whole at the URL.
        self.there: set[str] = set()
        with told(f"{url} cannot be read"):
            self._pull()

    def _pull(self) -> None:
        self.files.invalidate_cache()
        paths = [path for path in self.files.find(f"{self.root}/cells") if path.endswith(".json")]
        names = ["/".join(path.rsplit("/", 2)[1:]) for path in paths]
        copies = [self.folder / "cells" / name for name in names]
        for copy in copies:
            copy.parent.mkdir(parents=True, exist_ok=True)
        for at in range(0, len(paths), _BATCH):
            self.files.get(paths[at : at + _BATCH], [os.fspath(copy) for copy in copies[at : at + _BATCH]])
        self.there = {name for name, copy in zip(names, copies) if _is_whole(copy.read_bytes())}

    def beat(self) -> None:
        began = time.monotonic()
        if began < self.due:
            return
        self._push()
        # Most of the time is for cells, however slow the store.
        self.due = time.monotonic() + max(_BEAT, 10 * (time.monotonic() - began))

    def end(self) -> None:
        self._push()
        dataset = self.folder / "sweep.parquet"
        if dataset.exists():
            with told(f"{self.url} cannot be written"):
                self._put({f"{self.root}/sweep.parquet": dataset.read_bytes()})

    def _push(self) -> None:
        folder = self.folder / "cells"
        new = [name for file in folder.glob("*/*.json") if (name := os.fspath(file.relative_to(folder))) not in self.there]
        for at in range(0, len(new), _BATCH):
            batch = new[at : at + _BATCH]
            contents = {f"{self.root}/cells/{name}": (folder / name).read_bytes() for name in batch}
            with told(f"{self.url} cannot be written"):
                # What is not there is left out.
                others = self.files.cat(list(contents), on_error="omit")
            whole = {path: other for path, other in others.items() if _is_whole(other)}
            for path, other in whole.items():
                _compare(path, contents[path], other)
            with told(f"{self.url} cannot be written"):
                self._put({path: content for path, content in contents.items() if path not in whole})
            self.there.update(batch)

    def _put(self, contents: dict[str, bytes]) -> None:
        for parent in {path.rpartition("/")[0] for path in contents}:
            self.files.makedirs(parent, exist_ok=True)
        if contents:
            self.files.pipe(contents)

    def dataset(self) -> ds.Dataset:
        import pyarrow.dataset as ds

        return ds.dataset(f"{self.root}/sweep.parquet", format="parquet", filesystem=self.files)


def _is_whole(content: bytes) -> bool:
    try:
        json.loads(content)
    except ValueError:
        return False
    return True


def _compare(file: str, content: bytes, other: bytes) -> None:
    if content != other:
        raise _command.FreeholdError(
            f"{file}: two workers found different results for the same cell, so one of their machines, or the disk, is wrong; "
            "remove the file, and the same call does the cell again"
        )


def _replace(target: Path, content: bytes) -> None:
    """Writes the file, or leaves what was there."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=target.parent, delete=False) as part:
            try:
                part.write(content)
                part.flush()
                os.replace(part.name, target)
            except OSError:
                os.unlink(part.name)
                raise
    except OSError as error:
        raise _command.FreeholdError(f"{target} cannot be written: {error}; what was done is kept") from error


def filesystem(url: str) -> tuple[Any, str]:
    """What fsspec reaches the URL by, and the path there."""
    try:
        import fsspec
    except ImportError:
        raise _command.FreeholdError(f"{url}: URLs need fsspec; pip install 'freehold[dask]'") from None
    with told(f"{url} cannot be used"):
        files, root = fsspec.core.url_to_fs(url)
    return files, root.rstrip("/")


@contextmanager
def told(what: str) -> Iterator[None]:
    """Whatever a file system of fsspec raises, as a sentence."""
    try:
        yield
    except Exception as error:
        raise _command.FreeholdError(f"{what}: {type(error).__name__}: {error}") from error
