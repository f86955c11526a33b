"""trace-cmd's ``trace.dat``, as trace-cmd and iotrace write it: the kernel's own records, decoded by its own formats.

Whatever the kernel, a record is read by the format file saved beside it. Times stay in the clock that was traced.
"""

from __future__ import annotations

from androstep_analysis.ingest import ftrace, tracedat_file
from androstep_analysis.ingest.source import Source
from androstep_analysis.ingest.spool import Spool
from androstep_analysis.ingest.staging import Staging


def sniff(head: bytes) -> bool:
    """Whether `head` begins as trace-cmd's files do."""
    return head.startswith(tracedat_file.MAGIC)


def read(source: Source, spool: Spool) -> Staging:
    """The events of all instances in the file (`ftrace.read`)."""
    return ftrace.read(tracedat_file.open_container(source), spool, "trace.dat")
