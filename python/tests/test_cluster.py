"""A cluster of processes on this machine, with what happens to one."""

import os
import signal
import threading
import time
from pathlib import Path

import distributed
import fsspec
import pytest

import freehold

POLICIES = "first-fit,next-fit,best-fit,worst-fit,good-fit,exact-fit,dmrt,dmrt-looks,dmrt-paper,buddy"
#: 10 traces, 10 policies, 10 limits.
THOUSAND = dict(on=POLICIES, limit=[1.1, 1.2, 1.5, 2, 3, 4, 6, 8, "64M", "none"])


@pytest.fixture
def cluster(tmp_path):
    with (
        distributed.LocalCluster(
            n_workers=3, threads_per_worker=1, processes=True, dashboard_address=None, local_directory=str(tmp_path / "dask")
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def dataset(folder: Path) -> bytes:
    return (folder / "sweep.parquet").read_bytes()


def cells(folder: Path) -> int:
    return len(list((folder / "cells").glob("*/*.json")))


def fill_the_disk() -> str:
    """On a worker: from now on no file of its children can be longer than nothing, as on a full disk."""
    import resource

    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


def test_a_thousand_cells_with_a_worker_killed_and_one_without_disk_are_the_same_bytes(cluster, traces, tmp_path):
    freehold.sweep(traces / "*.fht", out=tmp_path / "alone", **THOUSAND)
    assert cells(tmp_path / "alone") == 1000
    workers = list(cluster.scheduler_info()["workers"])
    cluster.run(fill_the_disk, workers=workers[:1])

    def kill_half_way():
        while cells(tmp_path / "cluster") < 300:
            time.sleep(0.005)
        pid = cluster.run(os.getpid, workers=workers[1:2])[workers[1]]
        killed.append(cells(tmp_path / "cluster"))
        os.kill(pid, signal.SIGKILL)

    killed: list[int] = []
    killer = threading.Thread(target=kill_half_way, daemon=True)
    killer.start()
    found = freehold.sweep(traces / "*.fht", out=tmp_path / "cluster", client=cluster, **THOUSAND).to_table()
    killer.join(timeout=10)
    assert killed and killed[0] < 1000, "it was killed in the middle"
    assert found.num_rows == 1000
    assert dataset(tmp_path / "cluster") == dataset(tmp_path / "alone")


def test_what_is_done_is_not_sent_again(cluster, traces, tmp_path):
    arguments = dict(on="best-fit", limit=[1.5, 2], out=tmp_path / "out")
    freehold.sweep(traces / "[0-4].fht", client=cluster, **arguments)
    before = {file: file.stat().st_mtime_ns for file in (tmp_path / "out/cells").glob("*/*")}
    freehold.sweep(traces / "*.fht", client=cluster, **arguments)
    after = {file: file.stat().st_mtime_ns for file in (tmp_path / "out/cells").glob("*/*")}
    assert len(before) == 10 and len(after) == 20 and before.items() <= after.items()


def test_workers_that_do_not_see_the_traces_get_them(cluster, traces, tmp_path, monkeypatch):
    # All of them do see this machine's folders: so the client is told that they do not.
    monkeypatch.setattr(cluster, "run", blinded(cluster.run))
    freehold.sweep(traces / "3.fht", on="best-fit", out=tmp_path / "far", client=cluster)
    freehold.sweep(traces / "3.fht", on="best-fit", out=tmp_path / "near")
    assert dataset(tmp_path / "far") == dataset(tmp_path / "near")
    fetched = list((tmp_path / "dask").glob("**/freehold-traces/*/3.fht"))
    assert len(fetched) == 1, "the one worker that needed it fetched it, once"


def blinded(run):
    def of_others(function, *arguments, **more):
        answers = run(function, *arguments, **more)
        return {worker: [-1] * len(answer) if isinstance(answer, list) else answer for worker, answer in answers.items()}

    return of_others


def test_traces_of_a_store_are_fetched_by_workers(traces, tmp_path):
    store = fsspec.filesystem("memory")
    store.pipe("/far/4.fht", (traces / "4.fht").read_bytes())
    with distributed.LocalCluster(n_workers=1, processes=False, dashboard_address=None, local_directory=str(tmp_path)) as one:
        with distributed.Client(one) as client:
            freehold.sweep("memory://far/4.fht", on="best-fit", out=tmp_path / "far", client=client)
    freehold.sweep(traces / "4.fht", on="best-fit", out=tmp_path / "near")
    assert dataset(tmp_path / "far") == dataset(tmp_path / "near")


def test_another_version_on_a_worker_is_refused(cluster, traces, tmp_path):
    def another():
        from freehold import _cluster

        _cluster._version = lambda: "0.0.0"

    cluster.run(another, workers=list(cluster.scheduler_info()["workers"])[:1])
    with pytest.raises(freehold.FreeholdError, match="1 of 3 workers .* answers: 0.0.0. Install the same wheel"):
        freehold.sweep(traces / "1.fht", on="best-fit", out=tmp_path / "out", client=cluster)


def test_without_a_scheduler_or_with_a_full_disk_everywhere_it_says_so(cluster, traces, tmp_path):
    with pytest.raises(freehold.FreeholdError, match="no scheduler answers at tcp://127.0.0.1:9"):
        freehold.sweep(traces / "1.fht", on="best-fit", out=tmp_path / "out", client="tcp://127.0.0.1:9")
    cluster.run(fill_the_disk)
    with pytest.raises(freehold.FreeholdError, match="no worker could do .*what was done is kept"):
        freehold.sweep(traces / "1.fht", on="best-fit", out=tmp_path / "out", client=cluster)
