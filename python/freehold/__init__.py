"""Record any program's allocations, replay them under any policy on any allocator, as tables.

    >>> import freehold
    >>> trace = freehold.record(["ls", "-l"], output="ls.fht")
    >>> trace.info.events
    >>> trace.sites.to_pandas()
    >>> freehold.replay(trace, on="policies").to_pandas()
    >>> freehold.sweep(["traces/*.fht"], limit=[1.1, 1.5, 2]).to_table().to_pandas()

Every function runs the `freehold` command that is installed with this module. What the command refuses is a
:class:`FreeholdError` with the command's own words.
"""

from ._command import FreeholdError
from ._measure import measure
from ._replay import compare, replay
from ._sweep import sweep
from ._trace import Info, Process, Trace, record

__all__ = ["FreeholdError", "Info", "Process", "Trace", "compare", "measure", "record", "replay", "sweep"]
