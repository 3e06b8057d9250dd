"""A cluster of processes on this machine, with what happens to one."""

import json
import os
import signal
import subprocess
import threading
import time
import warnings
from contextlib import contextmanager
from pathlib import Path

import dask
import distributed
import fsspec
import pyarrow.compute as pc
import pytest
from conftest import written

import freehold
from freehold import _cluster, _command, _progress, _store

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


def fill_the_disk() -> None:
    """On a worker: from now on no file of its children can be longer than nothing, as on a full disk."""
    import resource

    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


@contextmanager
def full_disk(cluster, worker):
    """The worker's folder lies on a disk without room; where nothing can be mounted, no file of the worker can grow instead."""
    folder = cluster.run(lambda dask_worker: dask_worker.local_directory, workers=[worker])[worker]
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", folder], capture_output=True)
    if mounted.returncode != 0:
        warnings.warn("nothing can be mounted here: instead of a full disk the worker has a limit on files")
        cluster.run(fill_the_disk, workers=[worker])
        yield "File too large"
        return
    try:
        with pytest.raises(OSError), open(f"{folder}/full", "wb", buffering=0) as full:
            while full.write(bytes(4096)):
                pass
        yield "No space left on device"
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


@pytest.fixture
def elsewhere(monkeypatch):
    """What workers answered to tasks that the others then tried, or nobody could do."""
    answers = []
    real = _cluster._Sweep._elsewhere
    monkeypatch.setattr(_cluster._Sweep, "_elsewhere", lambda self, task, answer: (answers.append(answer), real(self, task, answer))[1])
    return answers


@pytest.fixture
def on_the_client(monkeypatch):
    """How many cells the client did itself."""
    done = []
    real = _command.counted

    def counted(words, fine, each):
        return real(words, fine, lambda at, total: (done.append(at), each(at, total)))

    monkeypatch.setattr(_command, "counted", counted)
    return done


def test_a_thousand_cells_with_a_worker_killed_and_one_without_disk_are_the_same_bytes(
    cluster, traces, tmp_path, elsewhere, on_the_client
):
    freehold.sweep(traces / "*.fht", out=tmp_path / "alone", workers=1, **THOUSAND)
    assert cells(tmp_path / "alone") == 1000
    on_the_client.clear()
    workers = list(cluster.nthreads())

    def kill_half_way():
        while cells(tmp_path / "cluster") < 300:
            time.sleep(0.005)
        pid = cluster.run(os.getpid, workers=workers[1:2])[workers[1]]
        killed.append(cells(tmp_path / "cluster"))
        os.kill(pid, signal.SIGKILL)

    killed: list[int] = []
    killer = threading.Thread(target=kill_half_way, daemon=True)
    with full_disk(cluster, workers[0]) as reason:
        killer.start()
        found = freehold.sweep(traces / "*.fht", out=tmp_path / "cluster", client=cluster, **THOUSAND).to_table()
        killer.join(timeout=10)
    assert killed and killed[0] < 1000, "it was killed in the middle"
    assert elsewhere and all(answer.worker == workers[0] and reason in answer.why for answer in elsewhere)
    assert found.num_rows == 1000 and not on_the_client
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


def test_a_cell_that_one_worker_lacks_memory_for_is_done_by_another(cluster, traces, tmp_path, elsewhere, on_the_client):
    workers = list(cluster.nthreads())
    cluster.run(little_memory, workers=workers[:2])
    # More tasks than the one able worker takes at once.
    limits = dict(on="best-fit,good-fit", limit=["60G", "61G", "62G", "63G", "64M"])
    found = freehold.sweep(traces / "0.fht", out=tmp_path / "out", client=cluster, **limits).to_table()
    assert found.num_rows == 10 and found["error"].null_count == 10
    assert elsewhere and all(answer.worker in workers[:2] for answer in elsewhere)
    assert not on_the_client


def errors(table):
    """The error of each trace; None if there is none."""
    return {row["trace"]: row["error"] for row in table.to_pylist()}


def test_a_trace_that_no_worker_can_read_is_rows_and_harms_no_other(cluster, traces, tmp_path, elsewhere, on_the_client):
    # A memory store is of one process: this one sees the trace, and no worker does.
    fsspec.filesystem("memory").pipe("/mine/5.fht", (traces / "5.fht").read_bytes())
    paths = ["memory://mine/5.fht", "memory://mine/none.fht", traces / "6.fht"]
    found = errors(freehold.sweep(paths, on="best-fit", out=tmp_path / "out", client=cluster).to_table())
    assert found["5.fht"].startswith("no worker could do it: memory://mine/5.fht cannot be read")
    assert found["none.fht"].startswith("memory://mine/none.fht cannot be read"), "nor can the client"
    assert found["6.fht"] is None
    assert len({answer.worker for answer in elsewhere}) == 3, "each worker has tried"
    assert cells(tmp_path / "out") == 1 and not on_the_client
    assert errors(freehold.sweep(traces / "5.fht", on="best-fit", out=tmp_path / "out", client=cluster).to_table()) == {"5.fht": None}


class Poison(distributed.WorkerPlugin):
    """Workers that start the command on a trace called poison.fht end."""

    def setup(self, worker):
        from freehold import _command

        real = _command.call

        def call(words, *arguments, **more):
            if any(str(word).endswith("poison.fht") for word in words):
                os.kill(os.getpid(), signal.SIGKILL)
            return real(words, *arguments, **more)

        _command.call = call


def test_a_trace_that_ends_workers_is_rows_and_harms_no_other(cluster, traces, tmp_path, on_the_client):
    (tmp_path / "poison.fht").write_bytes((traces / "0.fht").read_bytes())
    cluster.register_plugin(Poison())
    paths = [tmp_path / "poison.fht", traces / "1.fht"]
    arguments = dict(traces=paths, on="best-fit,dmrt", out=tmp_path / "out")
    rows = freehold.sweep(**arguments, client=cluster).to_table().to_pylist()
    assert [row["trace"] for row in rows] == ["1.fht"] * 2 + ["poison.fht"] * 2
    assert rows[0]["error"] is None and rows[1]["error"] is None
    assert all("workers that tried it ended" in row["error"] and "tries it again" in row["error"] for row in rows[2:])
    assert cells(tmp_path / "out") == 2 and not on_the_client
    assert freehold.sweep(**arguments).to_table()["error"].null_count == 4, "without these workers it is done"


class KillsCells(distributed.WorkerPlugin):
    """Under the first worker that starts the command, each process that does cells is killed as it comes up.

    What the command says of its work is kept in a folder.
    """

    def __init__(self, folder):
        self.folder = folder

    def setup(self, worker):
        from freehold import _command

        real = _command.call

        def call(*arguments, **more):
            ended = threading.Event()
            if not any(self.folder.iterdir()):
                (self.folder / "first").touch()
                threading.Thread(target=kill_cells, args=[worker.local_directory, ended], daemon=True).start()
            try:
                done = real(*arguments, **more)
            finally:
                ended.set()
            (self.folder / f"{time.time_ns()}.json").write_text(done.stdout)
            return done

        _command.call = call


def kill_cells(folder, ended):
    """Kills what does cells for the worker of the folder."""
    while not ended.is_set():
        for process in Path("/proc").glob("[0-9]*"):
            try:
                if f"--worker\0{folder}" in (process / "cmdline").read_text():
                    os.kill(int(process.name), signal.SIGKILL)
            except OSError:
                # It has ended by itself.
                continue


def test_cells_whose_process_was_killed_are_done_by_another_worker_and_no_other_cell_twice(
    cluster, large, tmp_path, elsewhere, on_the_client
):
    (tmp_path / "said").mkdir()
    cluster.register_plugin(KillsCells(tmp_path / "said"))
    # One task. Some of its cells may be quicker than the killer.
    arguments = dict(traces=large, on=POLICIES, limit=2)
    freehold.sweep(**arguments, out=tmp_path / "cluster", client=cluster)
    assert not on_the_client
    (answer,) = elsewhere
    killed = len(answer.errors)
    assert killed and all("killed, as the system does when memory is short" in why for why in answer.errors.values())
    said = [json.loads(file.read_text()) for file in sorted((tmp_path / "said").glob("*.json"))]
    assert [(one["found"], one["done"]) for one in said] == [(0, 10), (10 - killed, killed)]
    freehold.sweep(**arguments, out=tmp_path / "alone")
    assert dataset(tmp_path / "cluster") == dataset(tmp_path / "alone")


def test_two_workers_with_different_results_are_an_error(cluster, traces, tmp_path):
    out = tmp_path / "out"
    freehold.sweep(traces / "0.fht", on="best-fit,dmrt", out=out, client=cluster)
    one = next((out / "cells").glob("*/*.json"))
    one.write_text(one.read_text().replace("[", "[ ", 1))
    # To the cluster nothing is done yet; what comes back meets the cells that are there.
    words = ["sweep", "--out", tmp_path / "empty", "--on", "best-fit,dmrt", "--traces", traces / "0.fht"]
    with pytest.raises(freehold.FreeholdError, match=f"{one.name}: two workers found different results"):
        _cluster.do_cells(words, _store.Folder(out), cluster, {}, _progress.Progress())


def test_after_ctrl_c_the_rest_is_sent_and_nothing_twice(cluster, traces, tmp_path, interrupt):
    arguments = dict(traces=str(traces / "*.fht"), **THOUSAND)
    freehold.sweep(**arguments, out=tmp_path / "whole")
    cut = tmp_path / "cut"
    address = cluster.scheduler_info()["address"]
    before = interrupt(f"freehold.sweep(**{arguments}, out={str(cut)!r}, client={address!r})", cut, 50)
    assert 50 <= len(before) < 1000 and not (cut / "sweep.parquet").exists(), "it was in the middle"
    with distributed.get_task_stream(client=cluster) as stream:
        # What is under way on workers ends first.
        while any(cluster.processing().values()):
            time.sleep(0.01)
        old = {task["key"] for task in stream.data}
        freehold.sweep(**arguments, out=cut, client=cluster)
    sent = {task["key"] for task in stream.data if task["key"].startswith("_do-")} - old
    assert before.items() <= written(cut).items()
    # A task is ten cells: the last one may have been put down in part.
    assert (1000 - len(before)) // 10 <= len(sent) <= (1000 - len(before)) // 10 + 1
    assert dataset(cut) == dataset(tmp_path / "whole")


def test_what_is_done_is_not_sent_again(cluster, traces, tmp_path):
    arguments = dict(on="best-fit", limit=[1.5, 2], out=tmp_path / "out")
    freehold.sweep(traces / "[0-4].fht", client=cluster, **arguments)
    before = {file: file.stat().st_mtime_ns for file in (tmp_path / "out/cells").glob("*/*")}
    freehold.sweep(traces / "*.fht", client=cluster, **arguments)
    after = {file: file.stat().st_mtime_ns for file in (tmp_path / "out/cells").glob("*/*")}
    assert len(before) == 10 and len(after) == 20 and before.items() <= after.items()


@pytest.mark.parametrize("where", ["path", "url"])
def test_workers_that_do_not_see_a_trace_fetch_it_once(cluster, traces, tmp_path, monkeypatch, where):
    arguments = dict(on="best-fit", limit=[1.5, 2, 3, 4, 5, 6, 7, 8])
    if where == "path":
        # All of them do see this machine's folders: so the client is told that they do not.
        monkeypatch.setattr(cluster, "run", blinded(cluster.run))
        freehold.sweep(traces / "3.fht", out=tmp_path / "far", client=cluster, **arguments)
    else:
        freehold.sweep(f"file://{traces}/3.fht", out=tmp_path / "far", client=cluster, **arguments)
    freehold.sweep(traces / "3.fht", out=tmp_path / "near", **arguments)
    assert dataset(tmp_path / "far") == dataset(tmp_path / "near")
    fetched = list((tmp_path / "dask").glob("**/freehold-traces/*/3.fht"))
    assert 1 <= len(fetched) <= 3, "each worker that needed it has it"


def blinded(run):
    def of_others(function, *arguments, **more):
        answers = run(function, *arguments, **more)
        return {worker: [-1] * len(answer) if isinstance(answer, list) else answer for worker, answer in answers.items()}

    return of_others


def test_a_worker_fetches_a_trace_once_however_many_tasks_it_has(traces, tmp_path, monkeypatch):
    store = fsspec.filesystem("memory")
    store.pipe("/far/4.fht", (traces / "4.fht").read_bytes())
    fetched = []
    fetch = _cluster.fetch
    monkeypatch.setattr(_cluster, "fetch", lambda url, path: (fetched.append(url), fetch(url, path)))
    arguments = dict(on="best-fit", limit=[1.5, 2, 3, 4, 5, 6])
    # In one process, of which each thread does tasks: they see the same memory, and the counter.
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=3, processes=False, dashboard_address=None, local_directory=str(tmp_path)
    ) as one:
        with distributed.Client(one) as client:
            freehold.sweep("memory://far/4.fht", out=tmp_path / "far", client=client, **arguments)
            assert fetched == ["memory://far/4.fht"], "six tasks"
            freehold.sweep("memory://far/4.fht", out=tmp_path / "again", client=client, **arguments)
            assert len(fetched) == 1, "nor for another sweep"
            # Another trace of the same name is another one.
            store.pipe("/far/4.fht", (traces / "5.fht").read_bytes())
            freehold.sweep("memory://far/4.fht", out=tmp_path / "other", client=client, **arguments)
            assert len(fetched) == 2
    freehold.sweep(traces / "4.fht", out=tmp_path / "near", **arguments)
    assert dataset(tmp_path / "far") == dataset(tmp_path / "near") == dataset(tmp_path / "again")


def test_a_study_is_swept_on_a_cluster_into_a_store(cluster, tmp_path, on_the_client):
    small = dict(study="mesh", quick=True, set={"platforms": '["2x2"]', "larger": "2x2", "seed": ["1", "2", "none"]})
    found = freehold.sweep(**small, out=f"file://{tmp_path}/far", client=cluster).to_table()
    assert not on_the_client
    freehold.sweep(**small, out=tmp_path / "near")
    errors = [row["error"] for row in found.to_pylist() if row["seed"] == "none"]
    assert found.num_rows > 3 and len(errors) == 1 and "seed" in errors[0]
    whole = found.filter(pc.is_null(found["error"]))
    assert set(whole["seed"].to_pylist()) == {"1", "2"}
    assert len(list((tmp_path / "far/cells").glob("*/*"))) == 2, "an error is tried again"


def test_what_the_cluster_has_done_is_counted(cluster, traces, tmp_path, monkeypatch):
    shown = []
    monkeypatch.setattr(_progress.Progress, "set", lambda self, done, total: shown.append((done, total)))
    freehold.sweep(traces / "[0-4].fht", on="best-fit,dmrt", limit=[1.5, 2], out=tmp_path / "out", client=cluster)
    assert shown == [(done, 20) for done in range(2, 21, 2)]


def test_another_version_on_a_worker_is_refused(cluster, traces, tmp_path):
    def another():
        from freehold import _cluster

        _cluster._version = lambda: "0.0.0"

    cluster.run(another, workers=list(cluster.nthreads())[:1])
    with pytest.raises(freehold.FreeholdError, match="1 of 3 workers .* answers: 0.0.0. Install the same wheel"):
        freehold.sweep(traces / "1.fht", on="best-fit", out=tmp_path / "out", client=cluster)


def test_without_a_scheduler_it_says_so(traces, tmp_path):
    with pytest.raises(freehold.FreeholdError, match="no scheduler answers at tcp://127.0.0.1:9"):
        freehold.sweep(traces / "1.fht", on="best-fit", out=tmp_path / "out", client="tcp://127.0.0.1:9")


def test_with_a_full_disk_everywhere_cells_have_errors_until_there_is_room(cluster, traces, tmp_path):
    arguments = dict(traces=traces / "1.fht", on="best-fit", out=tmp_path / "out")
    cluster.run(fill_the_disk)
    found = errors(freehold.sweep(**arguments, client=cluster).to_table())
    assert found["1.fht"].startswith("no worker could do it") and "tries it again" in found["1.fht"]
    assert errors(freehold.sweep(**arguments).to_table()) == {"1.fht": None}


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
    # Dask moves a worker's times by what it thinks its clock is wrong by, which it measures again and again: by 28 ms on a busy
    # machine. Two that run at once share most of the shorter one's time.
    clock = sorted(stop - start for start, stop in computed)[-2] / 4
    assert all(before[1] - clock <= after[0] for before, after in zip(computed, computed[1:])), computed


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
