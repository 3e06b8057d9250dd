import io
import subprocess
import sys

import fsspec
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from conftest import written

import freehold
from freehold import _command, _progress, _store


def test_cells_are_rows_and_are_not_done_twice(traces, tmp_path):
    arguments = dict(on="best-fit,malloc", limit=[1.5, "64M", None], set={"reserve.bytes": ["1M", "8M"]})
    table = freehold.sweep(traces / "[0-3].fht", out=tmp_path / "one", **arguments).to_table()
    assert table.num_rows == 4 * 3 * (1 + 2)
    assert table["error"].null_count == table.num_rows
    written = {file: file.stat().st_mtime_ns for file in (tmp_path / "one/cells").glob("*/*")}
    assert len(written) == table.num_rows
    again = freehold.sweep(traces / "[0-3].fht", out=tmp_path / "one", workers=1, **arguments).to_table()
    assert again == table
    assert written == {file: file.stat().st_mtime_ns for file in (tmp_path / "one/cells").glob("*/*")}


def test_errors_are_rows_and_a_useless_call_is_an_exception(traces, tmp_path):
    table = freehold.sweep([traces / "0.fht", "missing.fht"], on="best-fit,frist-fit", out=tmp_path / "out").to_table()
    assert table.num_rows == 4 and table.filter(pc.is_valid(table["error"])).num_rows == 3
    with pytest.raises(freehold.FreeholdError, match="glibc is measured"):
        freehold.sweep(traces / "0.fht", on="glibc", out=tmp_path / "out")
    with pytest.raises(freehold.FreeholdError, match="cannot be written"):
        freehold.sweep(traces / "0.fht", out="/proc/none")
    with pytest.raises(TypeError):
        freehold.sweep()


def test_a_study_is_swept_over_its_settings(tmp_path):
    small = {"platforms": '["2x2"]', "larger": "2x2"}
    table = freehold.sweep(study="mesh", quick=True, set={**small, "seed": range(1, 3)}, out=tmp_path).to_table()
    assert set(table["seed"].to_pylist()) == {1, 2} and table["error"].null_count == table.num_rows


def test_moved_seeds_by_a_sweep_are_those_of_the_study(tmp_path):
    # Machines so small, and hours so short, that it takes seconds.
    small = {"machines.m32.memory_mib": 2048, "machines.m32.bank_mib": 16, "machines.m4.memory_mib": 512, "machines.m4.bank_mib": 4}
    short = {"sweep_seconds": 60, **{f"workloads.{name}.seconds": 60 for name in ("light", "medium", "storms")}}
    once = {"verdict_seeds": 1, "stream_seeds": 0, "policies": '["fullest"]', **small, **short}
    settings = [word for name, value in {**once, "robust_seeds": 2}.items() for word in ("--set", f"{name}={value}")]
    _command.output(["study", "banks", "--quick", "--no-times", "--out", tmp_path / "study", *settings])
    study = moved(pq.read_table(tmp_path / "study/runs.parquet"))
    sweep = moved(
        freehold.sweep(study="banks", quick=True, set={**once, "robust_seeds": 1, "seed": [1, 2]}, out=tmp_path / "sweep").to_table()
    )
    study, sweep = study.to_pylist(), sweep.to_pylist()
    assert len(study) == 4
    for run, cell in zip(study, sweep, strict=True):
        # The moved seed is the one after the cell's.
        assert {name: cell[name] for name in run} == {**run, "seed": run["seed"] - 1}


def moved(runs):
    """The runs on moved seeds."""
    return runs.filter(pc.equal(runs["task"], "parameters moved by up to half"))


@pytest.fixture(params=["memory", "file"])
def store(request, tmp_path):
    """A store that fsspec reaches, and the URL of its folder."""
    folder = f"{tmp_path}/store"
    files = fsspec.filesystem(request.param)
    yield files, f"{request.param}://{folder}"
    if files.exists(folder):
        files.rm(folder, recursive=True)


def test_traces_come_from_any_store_that_fsspec_reads(store, traces, tmp_path):
    files, url = store
    files.makedirs(url)
    files.pipe(f"{url}/7.fht", (traces / "7.fht").read_bytes())
    near = freehold.sweep(traces / "7.fht", on="best-fit", out=tmp_path / "near").to_table()
    far = freehold.sweep(f"{url}/7.fht", on="best-fit", out=tmp_path / "far").to_table()
    assert far == near


def test_a_trace_that_cannot_be_read_is_a_row_and_is_tried_again(store, traces, tmp_path):
    files, url = store
    arguments = dict(traces=[f"{url}/late.fht", traces / "8.fht"], on="best-fit,dmrt", out=tmp_path / "out")
    found = freehold.sweep(**arguments).to_table().to_pylist()
    assert [(row["trace"], row["error"] is None) for row in found] == [("8.fht", True)] * 2 + [("late.fht", False)] * 2
    assert f"{url}/late.fht cannot be read: FileNotFoundError" in found[2]["error"]
    files.makedirs(url)
    files.pipe(f"{url}/late.fht", (traces / "7.fht").read_bytes())
    assert freehold.sweep(**arguments).to_table()["error"].null_count == 4
    measured = freehold.measure([f"{url}/none.fht", traces / "8.fht"], on="glibc", runs=1).to_pylist()
    assert [row["trace"] for row in measured] == ["none.fht", "8.fht"]
    assert "none.fht cannot be read" in measured[0]["error"] and measured[1]["error"] is None
    with pytest.raises(freehold.FreeholdError, match="patterns are of files"):
        freehold.sweep(f"{url}/*.fht", out=tmp_path / "out")


def test_cells_and_dataset_go_to_any_store_that_fsspec_writes(store, traces, tmp_path, monkeypatch):
    files, url = store
    monkeypatch.chdir(tmp_path)
    arguments = dict(on="best-fit,dmrt", limit=[2, None])
    near = freehold.sweep(traces / "[0-3].fht", out=tmp_path / "near", **arguments).to_table()
    # Two of the four traces first: their cells must not be done again.
    freehold.sweep(traces / "[0-1].fht", out=f"{url}/far", **arguments)
    before = {path: files.modified(path) for path in files.find(f"{url}/far/cells")}
    assert len(before) == 8
    far = freehold.sweep(traces / "[0-3].fht", out=f"{url}/far", **arguments)
    after = {path: files.modified(path) for path in files.find(f"{url}/far/cells")}
    assert far.to_table() == near and len(after) == 16 and before.items() <= after.items()
    assert files.cat(f"{url}/far/sweep.parquet") == (tmp_path / "near/sweep.parquet").read_bytes()
    assert {path.name for path in tmp_path.iterdir()} <= {"near", "store"}, "no folder is called like the URL"


def test_cells_reach_a_store_while_the_sweep_goes_on(traces, tmp_path, monkeypatch):
    monkeypatch.setattr(_store, "_BEAT", 0.0)
    pushed = []
    put = _store.Remote._put
    monkeypatch.setattr(_store.Remote, "_put", lambda self, contents: (pushed.append(len(contents)), put(self, contents)))
    freehold.sweep(traces / "*.fht", on="best-fit,malloc", out=f"file://{tmp_path}/far", workers=1)
    assert sum(pushed) == 21 and len(pushed) > 2, "twenty cells and the dataset, not all at the end"


def test_a_store_that_cannot_be_written_is_named(traces, tmp_path):
    with pytest.raises(freehold.FreeholdError, match="file:///proc/none cannot be written"):
        freehold.sweep(traces / "0.fht", on="best-fit", out="file:///proc/none")
    with pytest.raises(freehold.FreeholdError, match="nothing://here cannot be used"):
        freehold.sweep(traces / "0.fht", on="best-fit", out="nothing://here")


def test_a_cell_done_twice_must_be_the_same_bytes(store, traces, tmp_path):
    files, url = store
    name, one, other = "ab/abcd.json", b'{"rows": [1]}', b'{"rows": [2]}'
    folder = _store.Folder(tmp_path / "near")
    folder.keep({name: one})
    folder.keep({name: one})
    with pytest.raises(freehold.FreeholdError, match="abcd.json: two workers found different results"):
        folder.keep({name: other})
    (tmp_path / "near/cells" / name).write_bytes(other[:5])
    folder.keep({name: one})
    assert (tmp_path / "near/cells" / name).read_bytes() == one, "half a cell counts as none"

    for before, after in [(other[:5], one), (other, other)]:
        remote = _store.Remote(url, tmp_path / f"copy-{len(before)}")
        remote.keep({name: one})
        # Another client, meanwhile.
        files.makedirs(f"{url}/cells/ab", exist_ok=True)
        files.pipe(f"{url}/cells/{name}", before)
        if before == other:
            with pytest.raises(freehold.FreeholdError, match="two workers found different results"):
                remote.end()
        else:
            remote.end()
        assert files.cat(f"{url}/cells/{name}") == after
        files.rm(f"{url}/cells", recursive=True)


def test_after_ctrl_c_the_next_call_does_the_rest_and_nothing_twice(large, interrupt, tmp_path):
    arguments = dict(traces=str(large), on="policies,malloc", limit=[1.5, 2, 3], workers=2)
    whole = freehold.sweep(**arguments, out=tmp_path / "whole").to_table()
    cut = tmp_path / "cut"
    before = interrupt(f"freehold.sweep(**{arguments}, out={str(cut)!r})", cut, 3)
    assert 3 <= len(before) < whole.num_rows, "it was in the middle"
    assert not (cut / "sweep.parquet").exists()
    again = freehold.sweep(**arguments, out=cut).to_table()
    assert again == whole and before.items() <= written(cut).items()


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_terminal_shows_how_much_is_done_and_how_long_the_rest_takes(is_terminal, traces, tmp_path, monkeypatch):
    class Screen(io.StringIO):
        def isatty(self):
            return is_terminal

    monkeypatch.setattr(_progress, "_PATIENCE", 0)
    monkeypatch.setattr(_progress, "_BEAT", 0)
    monkeypatch.setattr(sys, "stderr", screen := Screen())
    freehold.sweep(traces / "*.fht", on="best-fit,dmrt", out=tmp_path / "out")
    shown = screen.getvalue()
    assert ("7 of 20 cells, 0 s left" in shown) == is_terminal, shown
    assert shown.endswith("\r\x1b[K") if is_terminal else not shown


def test_the_time_left_is_in_words():
    assert [_progress._duration(seconds) for seconds in (0.4, 59, 61, 7260)] == ["0 s", "59 s", "1 min 1 s", "2 h 1 min"]


def test_whoever_imports_it_does_not_wait_for_pandas():
    subprocess.run([sys.executable, "-c", "import sys, freehold; sys.exit('pandas' in sys.modules)"], check=True)
