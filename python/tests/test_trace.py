import pickle

import pyarrow as pa
import pytest

import freehold


def test_a_recorded_program_is_described(recorded):
    info = recorded.info
    assert info.program == "sort" and info.command[1] == "/etc/passwd"
    assert info.events > 0 and info.threads >= 1 and info.peak_live > 0
    assert len(info.processes) == 1 and info.processes[0].events == info.events
    assert info.damage == ()


def test_events_are_a_table_with_a_row_each(recorded):
    events = recorded.events
    assert isinstance(events, pa.Table) and events.num_rows == recorded.info.events
    allocated = events.filter(pa.compute.equal(events["event"], "alloc"))
    assert allocated.num_rows > 0 and pa.compute.sum(allocated["size"]).as_py() >= recorded.info.peak_live
    assert recorded.events is events, "read once"


def test_sites_are_flat_and_hold_the_peak(recorded):
    sites = recorded.sites
    assert {"function", "place", "peak_bytes", "callers"} <= set(sites.column_names)
    assert not any(pa.types.is_nested(field.type) for field in sites.schema)
    assert 0 < pa.compute.sum(sites["peak_bytes"]).as_py() <= recorded.info.peak_live
    assert sites["peak_bytes"][0].as_py() == pa.compute.max(sites["peak_bytes"]).as_py()


def test_nothing_is_read_before_it_is_asked_for(tmp_path):
    path = tmp_path / "text.fht"
    path.write_text("not a trace")
    trace = freehold.Trace(path)
    with pytest.raises(freehold.FreeholdError, match="text.fht"):
        trace.info


def test_what_the_command_refuses_is_an_exception_with_its_words(tmp_path):
    with pytest.raises(freehold.FreeholdError, match="no such file"):
        freehold.Trace(tmp_path / "missing.fht")
    with pytest.raises(freehold.FreeholdError) as refused:
        freehold.record(["/no/such/program"], output=tmp_path / "a.fht")
    assert "/no/such/program" in str(refused.value) and refused.value.status == 127
    again = pickle.loads(pickle.dumps(refused.value))
    assert str(again) == str(refused.value) and again.status == 127
    with pytest.raises(TypeError):
        freehold.record("ls -l")


def test_a_program_that_fails_is_recorded_all_the_same(tmp_path):
    trace = freehold.record(["ls", "/no/such/folder"], output=tmp_path / "ls.fht")
    assert trace.info.events > 0


def test_help_says_what_to_do():
    for name in freehold.__all__:
        assert len(getattr(freehold, name).__doc__) > 20, name
