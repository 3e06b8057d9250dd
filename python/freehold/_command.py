"""The command that is installed with this module: found, run, and its refusals as exceptions."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sysconfig
import tempfile
from collections.abc import Callable, Iterable, Sequence
from typing import IO, Any

Words = Sequence["str | os.PathLike[str]"]


class FreeholdError(RuntimeError):
    """The command refused, and said why.

    ``status`` is its exit status and ``command`` its words; both are ``None`` where no command ran.
    """

    def __init__(self, message: str, status: int | None = None, command: Words | None = None):
        super().__init__(message)
        self.status = status
        self.command = None if command is None else [os.fspath(word) for word in command]

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (str(self), self.status, self.command)


@functools.cache
def path() -> str:
    """The command's file: beside this Python, or else in PATH."""
    for scheme in (None, *(s for s in sysconfig.get_scheme_names() if s.endswith("user"))):
        folder = sysconfig.get_path("scripts", scheme) if scheme else sysconfig.get_path("scripts")
        candidate = os.path.join(folder, "freehold")
        if os.access(candidate, os.X_OK):
            return candidate
    found = shutil.which("freehold")
    if found is None:
        raise FreeholdError("the freehold command is not installed beside this Python; install the wheel again")
    return found


#: How the command runs. Python ignores SIGXFSZ, and so shall the command: a limit on files is an error that it tells.
_PIPES: dict[str, Any] = {
    "stdin": subprocess.DEVNULL,
    "stderr": subprocess.PIPE,
    "text": True,
    "errors": "replace",
    "restore_signals": False,
}


def call(
    words: Words, fine: Iterable[int] = (0,), stdout: int | None = None, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs the command to its end; an exit status that is not ``fine`` is an exception."""
    done: subprocess.CompletedProcess[str] = subprocess.run([path(), *words], stdout=stdout, env=env, **_PIPES)
    if done.returncode not in fine:
        raise refusal(done, words)
    return done


def counted(words: Words, fine: Iterable[int], each: Callable[[int, int], None]) -> subprocess.CompletedProcess[str]:
    """Runs a sweep as ``call`` does; ``each`` gets the cells done and all cells, whenever one is done."""
    words = [*words, "--count"]
    with tempfile.TemporaryFile("w+") as printed:
        child: subprocess.Popen[str] = subprocess.Popen([path(), *words], stdout=printed, **_PIPES)
        assert child.stderr is not None
        try:
            said = _told(child.stderr, each)
        except BaseException:
            # After Ctrl-C, too: the command ends its workers, and what was done is kept.
            child.terminate()
            raise
        finally:
            child.stderr.close()
            child.wait()
        printed.seek(0)
        done = subprocess.CompletedProcess(words, child.returncode, printed.read(), said)
    if done.returncode not in fine:
        raise refusal(done, words)
    return done


def _told(lines: IO[str], each: Callable[[int, int], None]) -> str:
    """What the command says besides `cells DONE TOTAL`."""
    said = []
    for line in lines:
        match line.split():
            case ["cells", done, total] if done.isdigit() and total.isdigit():
                each(int(done), int(total))
            case _:
                said.append(line)
    return "".join(said)


def output(words: Words, fine: Iterable[int] = (0,)) -> str:
    """What the command prints."""
    return call(words, fine, stdout=subprocess.PIPE).stdout


def refusal(done: subprocess.CompletedProcess[str], words: Words) -> FreeholdError:
    """What the command said on standard error, as an exception."""
    lines = [line.removeprefix("freehold: ") for line in done.stderr.splitlines()]
    said = "\n".join(lines).strip() or f"freehold ended with status {done.returncode}"
    return FreeholdError(said, done.returncode, ["freehold", *words])


def listed(names: str | Iterable[object]) -> str:
    """Names or values as the command takes them: separated by commas."""
    return names if isinstance(names, str) else ",".join(str(name) for name in names)
