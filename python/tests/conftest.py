"""Recorded programs, made once; everything else is a test's own."""

import os
import signal
import subprocess
import sys
import time

import pytest

import freehold


@pytest.fixture(scope="session")
def recorded(tmp_path_factory):
    """A small trace with call stacks."""
    path = tmp_path_factory.mktemp("recorded") / "sample.fht"
    return freehold.record(["sort", "/etc/passwd", "-o", "/dev/null"], output=path)


@pytest.fixture(scope="session")
def traces(tmp_path_factory):
    """A folder with ten small traces."""
    folder = tmp_path_factory.mktemp("traces")
    for number in range(10):
        freehold.record(["env", "-i", "ls", "-d", *["/"] * (number + 1)], output=folder / f"{number}.fht", stacks="off")
    return folder


@pytest.fixture(scope="session")
def large(tmp_path_factory):
    """A trace whose cells take long enough to be interrupted in."""
    path = tmp_path_factory.mktemp("large") / "large.fht"
    return freehold.record([sys.executable, "-c", "import json, argparse, email, decimal"], output=path, stacks="off").path


@pytest.fixture
def interrupt(tmp_path):
    """Runs a line of Python until so many cells are done, sends it what Ctrl-C sends, and gives the cells that it leaves."""

    def run(line, out, done):
        # A job in the background has inherited that Ctrl-C is ignored.
        heard = "import freehold, signal, sys\nsignal.signal(signal.SIGINT, signal.default_int_handler)"
        child = subprocess.Popen([sys.executable, "-c", f"{heard}\n{line}"], stderr=subprocess.PIPE, text=True)
        try:
            deadline = time.monotonic() + 120
            while len(list(out.glob("cells/*/*.json"))) < done:
                assert child.poll() is None, f"it ended by itself: {child.communicate()[1]}"
                assert time.monotonic() < deadline, "cells are done"
                time.sleep(0.002)
            os.kill(child.pid, signal.SIGINT)
            said = child.communicate(timeout=120)[1]
        finally:
            child.kill()
        assert child.returncode == -signal.SIGINT and "KeyboardInterrupt" in said
        return written(out)

    return run


def written(out):
    """The cells of a folder, each with the time when it was written."""
    return {file.name: file.stat().st_mtime_ns for file in out.glob("cells/*/*.json")}
