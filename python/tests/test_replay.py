import pyarrow as pa
import pytest

import freehold


def test_a_row_a_policy_with_trace_and_limit(recorded):
    table = freehold.replay(recorded, on=["best-fit", "buddy", "malloc"], limit="64M")
    assert table["on"].to_pylist() == ["best-fit", "buddy", "malloc"]
    assert set(table["trace"].to_pylist()) == {"sample.fht"} and set(table["limit"].to_pylist()) == {"64M"}
    assert not any(pa.types.is_nested(field.type) for field in table.schema)
    assert table["steps_total"].to_pylist()[2] is None, "the malloc has pages instead"
    assert min(table["peak_memory"].to_pylist()) >= recorded.info.peak_live


def test_settings_reach_the_malloc(recorded):
    with pytest.raises(freehold.FreeholdError, match="did you mean reserve.bytes"):
        freehold.replay(recorded, on="malloc", set={"reserve.byte": "1M"})
    assert freehold.replay(recorded, on="malloc", set={"reserve.bytes": "1M"}).num_rows == 1


def test_an_allocator_is_measured(recorded):
    table = freehold.replay(recorded, on="glibc", runs=1)
    assert table["kind"].to_pylist() == ["allocator"] and table["seconds"][0].as_py() > 0


def test_compare_records_and_writes_the_report(tmp_path):
    report = tmp_path / "report.html"
    table = freehold.compare(["ls", "/"], on="best-fit,malloc", report=report)
    assert table["on"].to_pylist() == ["best-fit", "malloc"] and report.read_text().startswith("<!")


def test_a_wrong_policy_is_told_with_the_nearest_names(recorded):
    with pytest.raises(freehold.FreeholdError, match="did you mean first-fit") as refused:
        freehold.replay(recorded, on="frist-fit")
    assert refused.value.status == 2
