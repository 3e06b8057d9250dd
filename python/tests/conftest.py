"""Recorded programs, made once; everything else is a test's own."""

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
