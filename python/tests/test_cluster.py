"""A cluster of processes on this machine, with what happens to one."""

import os
import signal
import threading
import time
from pathlib import Path

import dask
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
        # Whatever Dask's timers do to the client's fields, they do it in these tests, too.
        dask.config.set({"distributed.client.scheduler-info-interval": "1ms"}),
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
    workers = list(cluster.nthreads())
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


def test_a_cell_costs_a_cluster_little_beside_the_replay(cluster, tmp_path):
    # So small a trace that the replay itself is nothing: all that is left is overhead.
    trace = freehold.record(["true"], output=tmp_path / "true.fht", stacks="off").path
    cells_of = dict(on=POLICIES, limit=[f"{mib}M" for mib in range(8, 108)])
    least = float("inf")
    # The machine may have other work: once is enough.
    for attempt in range(3):
        began = time.monotonic()
        freehold.sweep(trace, out=tmp_path / f"out-{attempt}", client=cluster, **cells_of)
        assert cells(tmp_path / f"out-{attempt}") == 1000
        least = min(least, (time.monotonic() - began) / 1000)
        if least < 0.010:
            break
    print(f"{least * 1000:.2f} ms a cell, of 1,000 on three workers")
    assert least < 0.010


def test_a_wrong_trace_policy_or_setting_is_the_same_row_as_without_a_cluster(cluster, traces, tmp_path):
    (tmp_path / "text.fht").write_text("not a trace")
    wrong = dict(
        traces=[traces / "0.fht", tmp_path / "text.fht", "missing.fht"],
        on="best-fit,frist-fit,malloc",
        limit=[2],
        set={"reserve.bytes": ["1M", "much"]},
    )
    found = freehold.sweep(**wrong, out=tmp_path / "cluster", client=cluster).to_table()
    freehold.sweep(**wrong, out=tmp_path / "alone")
    assert dataset(tmp_path / "cluster") == dataset(tmp_path / "alone")
    errors = {(row["trace"], row["on"], row["reserve.bytes"]): row["error"] for row in found.to_pylist()}
    assert len(errors) == 12 and sum(error is None for error in errors.values()) == 2
    assert "did you mean first-fit" in errors["0.fht", "frist-fit", None]
    assert "64K or 2MiB" in errors["0.fht", "malloc", "much"]
    assert errors["missing.fht", "best-fit", None].startswith("missing.fht cannot be read")
    assert "text.fht" in errors["text.fht", "best-fit", None]


def little_memory() -> None:
    """On a worker: its children have 8 GB of addresses."""
    import resource

    resource.setrlimit(resource.RLIMIT_AS, (8_000_000_000, resource.getrlimit(resource.RLIMIT_AS)[1]))


def test_a_cell_without_memory_is_a_row_and_harms_no_other(cluster, traces, tmp_path):
    cluster.run(little_memory)
    limits = dict(on="best-fit,good-fit", limit=["60G", "64M"])
    found = freehold.sweep(traces / "0.fht", out=tmp_path / "out", client=cluster, **limits).to_table().to_pylist()
    assert len(found) == 4
    for row in found:
        large = row["limit_bytes"] is None or row["limit_bytes"] > 1 << 30
        assert ("cannot be reserved" in row["error"]) if large else row["error"] is None, row


def test_a_store_that_workers_cannot_read_is_named_with_what_was_kept(cluster, traces, tmp_path):
    # The client's memory is a store that no other process sees.
    store = fsspec.filesystem("memory")
    store.pipe("/mine/5.fht", (traces / "5.fht").read_bytes())
    with pytest.raises(freehold.FreeholdError, match="no worker could do .*memory://mine/5.fht cannot be read.*is kept"):
        freehold.sweep("memory://mine/5.fht", on="best-fit", out=tmp_path / "out", client=cluster)


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

    cluster.run(another, workers=list(cluster.nthreads())[:1])
    with pytest.raises(freehold.FreeholdError, match="1 of 3 workers .* answers: 0.0.0. Install the same wheel"):
        freehold.sweep(traces / "1.fht", on="best-fit", out=tmp_path / "out", client=cluster)


def test_without_a_scheduler_or_with_a_full_disk_everywhere_it_says_so(cluster, traces, tmp_path):
    with pytest.raises(freehold.FreeholdError, match="no scheduler answers at tcp://127.0.0.1:9"):
        freehold.sweep(traces / "1.fht", on="best-fit", out=tmp_path / "out", client="tcp://127.0.0.1:9")
    cluster.run(fill_the_disk)
    with pytest.raises(freehold.FreeholdError, match="no worker could do .*what was done is kept"):
        freehold.sweep(traces / "1.fht", on="best-fit", out=tmp_path / "out", client=cluster)


@pytest.fixture
def machines(request, tmp_path):
    """Three workers, of which ``request.param`` may be measured on."""
    options = {"nthreads": 2, "local_directory": str(tmp_path / "dask")}
    may = {**options, "resources": {"measure": 1}}
    workers = {n: {"cls": distributed.Nanny, "options": may if n < request.param else options} for n in range(3)}
    scheduler = {"cls": distributed.Scheduler, "options": {"dashboard": False}}
    with distributed.SpecCluster(workers=workers, scheduler=scheduler) as cluster, distributed.Client(cluster) as client:
        client.wait_for_workers(3)
        yield client


@pytest.mark.parametrize("machines", [1], indirect=True)
def test_one_trace_at_a_time_is_measured_on_a_machine(machines, traces, tmp_path):
    (tmp_path / "text.fht").write_text("not a trace")
    paths = [traces / "[1].fht", tmp_path / "text.fht", traces / "2.fht", "missing.fht"]
    with distributed.get_task_stream(client=machines) as stream:
        table = freehold.measure(paths, on="glibc,freehold", runs=1, client=machines)
    rows = table.to_pylist()
    assert [row["trace"] for row in rows] == ["1.fht", "1.fht", "text.fht", "2.fht", "2.fht", "missing.fht"]
    measured = [row for row in rows if row["error"] is None]
    assert len(measured) == 4 and all(row["seconds"] > 0 and row["machine"] == os.uname().nodename for row in measured)
    assert "text.fht" in rows[2]["error"] and "missing.fht" in rows[5]["error"]
    computed = [(span["start"], span["stop"]) for task in stream.data for span in task["startstops"] if span["action"] == "compute"]
    computed.sort()
    assert len(computed) == len(paths) and len({task["worker"] for task in stream.data}) == 1
    assert all(before[1] <= after[0] for before, after in zip(computed, computed[1:])), computed


@pytest.mark.parametrize(
    ("machines", "reason"),
    [
        (0, "start one per machine with `dask worker SCHEDULER --resources measure=1`"),
        (2, "2 replays at once on .* would measure each other"),
    ],
    indirect=["machines"],
)
def test_without_a_machine_for_itself_nothing_is_measured(machines, reason, traces):
    with pytest.raises(freehold.FreeholdError, match=reason):
        freehold.measure(traces / "1.fht", client=machines)
