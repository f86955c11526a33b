"""The counters of F2FS (`f2fs_iostat`, `f2fs_iostat_latency`) from every kind of recording."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from support import corpus, readers
from support.tracedat_files import File, Machine, event_format

from androstep_analysis import measures

DEV = 254 << 20 | 11
HEAD = "  f2fs_ckpt-254:1-507     [003] ....  %d.%09d: "

OLD = (
    "app [write=%(app_wio)d (direct=%(app_dio)d, buffered=%(app_bio)d), mapped=%(app_mio)d], "
    "fs [data=%(fs_dio)d, node=%(fs_nio)d, meta=%(fs_mio)d, discard=%(fs_discard)d], "
)
COMPRESSED = (
    "app [write=%(app_wio)d (direct=%(app_dio)d, buffered=%(app_bio)d), mapped=%(app_mio)d, "
    "compr(buffered=%(app_bcdio)d, mapped=%(app_mcdio)d)], "
    "fs [data=%(fs_dio)d, cdata=%(fs_cdio)d, node=%(fs_nio)d, meta=%(fs_mio)d, discard=%(fs_discard)d"
)
GC = "gc [data=%(fs_gc_dio)d, node=%(fs_gc_nio)d], cp [data=%(fs_cp_dio)d, node=%(fs_cp_nio)d, meta=%(fs_cp_mio)d]"
READ = "app [read=%(app_rio)d (direct=%(app_drio)d, buffered=%(app_brio)d), mapped=%(app_mrio)d], "
COMPRESSED_READ = (
    "compr(buffered=%(app_bcrio)d, mapped=%(app_mcrio)d)], "
    "fs [data=%(fs_drio)d, (gc_data=%(fs_gdrio)d, cdata=%(fs_cdrio)d), node=%(fs_nrio)d, meta=%(fs_mrio)d]"
)
FORMS = {
    "first": f"{OLD}{GC}",
    "reads": f"{OLD}{GC}, {READ}fs [data=%(fs_drio)d, node=%(fs_nrio)d, meta=%(fs_mrio)d]",
    "5.8": (
        f"{OLD}{GC}, {READ}fs [data=%(fs_drio)d, (gc_data=%(fs_gdrio)d, compr_data=%(fs_cdrio)d), "
        "node=%(fs_nrio)d, meta=%(fs_mrio)d]"
    ),
    "6.0": f"{COMPRESSED}], {GC}, {READ}{COMPRESSED_READ}",
    "6.6": f"{COMPRESSED}, reset_zone=%(fs_reset_zone)d], {GC}, {READ}{COMPRESSED_READ}",
    "folios": f"{COMPRESSED}, reset_zone=%(fs_reset_zone)d], {GC}, {READ}{COMPRESSED_READ}, read_folio_count [0=1]",
}
"""What TP_printk of f2fs_iostat prints (include/trace/events/f2fs.h), by the version that began it."""

LATENCY = (
    "iotype [peak lat.(ms)/avg lat.(ms)/count], rd_data [136/1/801], rd_node [136/1/1704], rd_meta [4/2/4], "
    "wr_sync_data [164/16/3331], wr_sync_node [152/3/648], wr_sync_meta [160/2/4243], wr_async_data [24/13/15], "
    "wr_async_node [0/0/0], wr_async_meta [7/8/9]"
)
"""The example in the message of the commit that added f2fs_iostat_latency; other numbers of the last kind."""


def line(ts_ns: int, event: str, fields: str) -> str:
    return HEAD % divmod(ts_ns, 10**9) + f"{event}: dev = (254,11), {fields}\n"


@pytest.mark.parametrize("name", FORMS)
def test_text_of_every_kernel(tmp_path: Path, name: str) -> None:
    form = FORMS[name]
    names = [part.partition(")")[0] for part in form.split("%(")[1:]]
    values = {field: 4096 * index + index for index, field in enumerate(names)}
    found = readers.read_bytes(tmp_path, line(5 * 10**9, "f2fs_iostat", form % values).encode()).samples
    assert dict(found.select("counter", "value").rows()) == {f"f2fs_iostat.{k}": v for k, v in values.items()}
    assert found.select("ts_ns", "scope", "dev", "pid", "unit").unique().rows() == [
        (5 * 10**9, "device", DEV, None, "B")
    ]


def test_latencies_in_text(tmp_path: Path) -> None:
    found = readers.read_bytes(tmp_path, line(1, "f2fs_iostat_latency", LATENCY).encode()).samples
    values = {
        counter.partition(".")[2]: (value, unit) for counter, value, unit in found[["counter", "value", "unit"]].rows()
    }
    assert len(values) == 27
    assert [values[f"d_rd_{of}"] for of in ("peak", "avg", "cnt")] == [(136, "ms"), (1, "ms"), (801, "I/Os")]
    assert [values[f"n_wr_s_{of}"] for of in ("peak", "avg", "cnt")] == [(152, "ms"), (3, "ms"), (648, "I/Os")]
    assert [values[f"m_wr_as_{of}"] for of in ("peak", "avg", "cnt")] == [(7, "ms"), (8, "ms"), (9, "I/Os")]


def test_an_unknown_form_is_a_loss(tmp_path: Path) -> None:
    known, unknown = line(1, "f2fs_iostat_latency", LATENCY), line(2, "f2fs_iostat", "app [written=1]")
    found = readers.read_bytes(tmp_path, (known + unknown).encode())
    assert readers.losses(found) == {"unreadable": 1}
    assert found.samples.height == 27


def test_text_and_records_agree_with_perfetto(tmp_path: Path) -> None:
    """The values of Perfetto's test are compared with its trace processor in test_ingest_perfetto."""
    path = corpus.path("perfetto/difftest_f2fs_iostat.pb")
    samples = readers.read(path).samples
    columns = ("ts_ns", "dev", "counter", "value", "unit", "scope")
    expected = set(samples.select(columns).rows())
    fields = sorted({counter.partition(".")[2] for counter in samples["counter"]})
    events = samples.with_columns(pl.col("counter").str.strip_prefix("f2fs_iostat.")).pivot(
        "counter", index=["ts_ns", "dev"], values="value"
    )

    machine = Machine()
    kinds = [
        ("dev_t dev", 8, 4, 0),
        *((f"unsigned long long {name}", 16 + 8 * n, 8, 0) for n, name in enumerate(fields)),
    ]
    records, text, last_ns = b"", "", 0
    for row in events.sort("ts_ns").iter_rows(named=True):
        data = machine.pack("I4x" + "Q" * len(fields), row["dev"], *(row[name] for name in fields))
        records += machine.record(row["ts_ns"] - last_ns, machine.fields(1, 77, data))
        last_ns = row["ts_ns"]
        head = line(row["ts_ns"], "f2fs_iostat", FORMS["5.8"] % row)
        text += head.replace("(254,11)", f"({row['dev'] >> 20},{row['dev'] & 0xFFFFF})")
    file = tmp_path / "trace.dat"
    described = [("f2fs", event_format("f2fs_iostat", 1, kinds))]
    file.write_bytes(File(machine, described, [machine.page(0, records)]).v6())
    assert set(readers.read(file).samples.select(columns).rows()) == expected
    assert set(readers.read_bytes(tmp_path, text.encode()).samples.select(columns).rows()) == expected


def test_values_of_a_period_do_not_grow(tmp_path: Path) -> None:
    """Each value counts since the event before, so that a difference of two values means nothing."""
    lines = "".join(line(at * 10**9, "f2fs_iostat_latency", LATENCY.replace("801", str(at))) for at in (1, 4, 7))
    samples = readers.read_bytes(tmp_path, lines.encode()).samples
    found = measures.REGISTRY["samples"].of({"samples": samples.lazy()}, ())
    assert set(found["metric"]) == {"mean"}
    assert found.filter(counter="f2fs_iostat_latency.d_rd_cnt")["value"].to_list() == [4.0]
