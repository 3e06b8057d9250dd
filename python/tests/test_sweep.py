import subprocess
import sys

import pyarrow.compute as pc
import pytest

import freehold


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


def test_traces_come_from_any_store_that_fsspec_reads(traces, tmp_path):
    import fsspec

    store = fsspec.filesystem("memory")
    store.pipe("/store/7.fht", (traces / "7.fht").read_bytes())
    near = freehold.sweep(traces / "7.fht", on="best-fit", out=tmp_path / "near").to_table()
    far = freehold.sweep("memory://store/7.fht", on="best-fit", out=tmp_path / "far").to_table()
    assert far == near
    with pytest.raises(freehold.FreeholdError, match="memory://store/none.fht cannot be read"):
        freehold.sweep("memory://store/none.fht", out=tmp_path / "far")


def test_whoever_imports_it_does_not_wait_for_pandas():
    subprocess.run([sys.executable, "-c", "import sys, freehold; sys.exit('pandas' in sys.modules)"], check=True)
