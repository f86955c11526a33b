"""Map F2FS's periodic counters to rows of table `samples`, in binary recordings and in text.

The events are `f2fs_iostat` (include/trace/events/f2fs.h, Linux 5.7 to 6.18) and `f2fs_iostat_latency` (since 5.15).
F2FS records both in the period of sysfs' `iostat_period_ms`, if `iostat_enable` is set. Values cover the time since the
event before (fs/f2fs/iostat.c, ``f2fs_record_iostat``).
"""

from __future__ import annotations

from androstep_analysis.ingest.ftrace.event_format import Event
from androstep_analysis.ingest.ftrace.programs import Do, Rows, What, code, number

TABLE = "samples"

EVENTS = ("f2fs_iostat", "f2fs_iostat_latency")

_WRITE = "dev = ({dev:device}), app [write={app_wio} (direct={app_dio}, buffered={app_bio}), mapped={app_mio}"
_GC = "gc [data={fs_gc_dio}, node={fs_gc_nio}], cp [data={fs_cp_dio}, node={fs_cp_nio}, meta={fs_cp_mio}]"
_READ = "app [read={app_rio} (direct={app_drio}, buffered={app_brio}), mapped={app_mrio}]"
_OLD = f"{_WRITE}], fs [data={{fs_dio}}, node={{fs_nio}}, meta={{fs_mio}}, discard={{fs_discard}}], {_GC}"
_COMPRESSED = (
    f"{_WRITE}, compr(buffered={{app_bcdio}}, mapped={{app_mcdio}})], fs [data={{fs_dio}}, cdata={{fs_cdio}}, "
    "node={fs_nio}, meta={fs_mio}, discard={fs_discard}"
)
_COMPRESSED_READ = (
    f"], {_GC}, {_READ}, compr(buffered={{app_bcrio}}, mapped={{app_mcrio}})], "
    "fs [data={fs_drio}, (gc_data={fs_gdrio}, cdata={fs_cdrio}), node={fs_nrio}, meta={fs_mrio}]"
)
_KINDS = {
    **{"rd_data": "d_rd", "rd_node": "n_rd", "rd_meta": "m_rd"},
    **{"wr_sync_data": "d_wr_s", "wr_sync_node": "n_wr_s", "wr_sync_meta": "m_wr_s"},
    **{"wr_async_data": "d_wr_as", "wr_async_node": "n_wr_as", "wr_async_meta": "m_wr_as"},
}

FIELDS: dict[str, tuple[str, ...]] = {
    "f2fs_iostat": (
        f"{_COMPRESSED}, reset_zone={{fs_reset_zone}}{_COMPRESSED_READ}",
        f"{_COMPRESSED}{_COMPRESSED_READ}",
        f"{_OLD}, {_READ}, fs [data={{fs_drio}}, (gc_data={{fs_gdrio}}, compr_data={{fs_cdrio}}), node={{fs_nrio}}, "
        "meta={fs_mrio}]",
        f"{_OLD}, {_READ}, fs [data={{fs_drio}}, node={{fs_nrio}}, meta={{fs_mrio}}]",
        f"{_OLD}{{end}}",
    ),
    "f2fs_iostat_latency": (
        "dev = ({dev:device}), iotype [peak lat.(ms)/avg lat.(ms)/count], "
        + ", ".join(f"{kind} [{{{name}_peak}}/{{{name}_avg}}/{{{name}_cnt}}]" for kind, name in _KINDS.items()),
    ),
}
"""The forms (`ingest.ftrace.forms`) of the text after an event's name. Their columns are the counters of the event, and
`dev`. The first form that matches is used.
"""


def unit(event: str, counter: str) -> str:
    """Return the unit of a counter."""
    if event == "f2fs_iostat":
        return "B"
    return "I/Os" if counter.endswith("_cnt") else "ms"


def rows(event: Event) -> Rows:
    """Return the rows that a record of `event` yields, one for each counter; empty for other events."""
    if event.name not in EVENTS:
        return ()
    names = [name for name in event.fields if name != "dev" and not name.startswith("common_")]
    return [
        (
            TABLE,
            (
                code(TABLE, "scope", "device"),
                Do(What.NUMBER, "dev", number(event, "dev")),
                Do(What.NAME, "counter", value=f"{event.name}.{name}"),
                Do(What.NUMBER, "value", number(event, name)),
                Do(What.NAME, "unit", value=unit(event.name, name)),
            ),
        )
        for name in names
        if number(event, name) is not None
    ]
