"""The timeline of frames in Perfetto traces, written by Google's own library and paired naively."""

from __future__ import annotations

import os
import random
import subprocess
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from support import corpus
from support import perfetto_messages as messages
from support.perfetto_messages import bundle, trace

import androstep_analysis as androstep
from androstep_analysis import schema
from androstep_analysis.ingest.perfetto import decoder
from androstep_analysis.ingest.perfetto import trace as perfetto
from androstep_analysis.ingest.source import Source
from androstep_analysis.ingest.spool import Spool
from androstep_analysis.ingest.staging import Staging

PEER = Path(os.environ.get("ANDROSTEP_TRACE_PROCESSOR", "/nowhere"))
"""Where the files of Perfetto's trace processor are."""

REALTIME, MONOTONIC, BOOT = 1, 3, 6
PRESENT = ("unspecified", "on_time", "late", "early", "dropped", "unknown")
PREDICTION = ("unspecified", "valid", "expired", "unknown")


def read(data: bytes) -> tuple[Staging, pl.DataFrame]:
    spool = Spool()
    staging = perfetto.read(Source.of(Path("a.pftrace"), data), spool)
    return staging, spool.table("frames").collect() if spool.rows("frames") else schema.empty("frames")


def packet(ts_ns: int, clock: int = 0, **event: Any) -> dict[str, Any]:
    timed = {"timestamp": ts_ns, "trusted_packet_sequence_id": 3, "frame_timeline_event": event}
    return timed | ({"timestamp_clock_id": clock} if clock else {})


def clocks(**offsets: int) -> dict[str, Any]:
    numbers = {"realtime": REALTIME, "mono": MONOTONIC, "boot": BOOT}
    rows = [{"clock_id": numbers[name], "timestamp": time} for name, time in offsets.items()]
    return {"clock_snapshot": {"clocks": rows}, "trusted_packet_sequence_id": 2}


def test_columns_are_those_of_the_schema() -> None:
    source = (Path(decoder.__file__).parents[2] / "native" / "decode" / "perfetto" / "frames.c").read_text()
    body = source[source.index("enum frame_column {") : source.index("};")]
    names = [f"FRAME_{column.name.upper()}" for column in schema.table("frame_events").columns]
    assert [line.strip(" ,") for line in body.splitlines()[1:] if line.strip()] == names


def made_frames(choose: random.Random) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return packets of a recording in any order of time, and the resulting rows."""
    packets: list[dict[str, Any]] = []
    open_rows: dict[int, dict[str, Any]] = {}
    rows: list[dict[str, Any]] = []
    for _ in range(choose.randrange(1, 120)):
        time = choose.randrange(1, 10**6)
        cookie = choose.randrange(-3, 25)
        if cookie in open_rows and choose.random() < 0.7:
            packets.append(packet(time, frame_end={"cookie": cookie}))
            row = open_rows.pop(cookie)
            row["end_ns"] = time if time >= row["ts_ns"] else None
            continue
        if choose.random() < 0.05 and cookie not in open_rows:
            packets.append(packet(time, frame_end={"cookie": cookie}))  # an end of nothing
            continue
        timeline = choose.choice(schema.table("frames").column("timeline").values)
        told = {"cookie": cookie, "token": choose.randrange(1 << 40), "pid": choose.randrange(1, 1 << 15)}
        row: dict[str, Any] = {"ts_ns": time, "end_ns": None, "timeline": timeline}
        row |= {"token": told["token"], "pid": told["pid"]}
        if timeline.endswith("surface"):
            told |= {"display_frame_token": choose.randrange(1 << 40), "layer_name": choose.choice(["TX - a", "ü", ""])}
            row |= {"display_token": told["display_frame_token"], "layer": told["layer_name"]}
        if timeline.startswith("actual"):
            present, prediction, jank = choose.randrange(8), choose.randrange(6), choose.randrange(4096)
            told |= {"present_type": present, "prediction_type": prediction, "jank_type": jank}
            told |= {"on_time_finish": choose.random() < 0.5, "gpu_composition": choose.random() < 0.5}
            row |= {"present": PRESENT[present] if present < 6 else None, "jank": jank}
            row |= {"prediction": PREDICTION[prediction] if prediction < 4 else None}
            row |= {"on_time": told["on_time_finish"], "gpu": told["gpu_composition"]}
            if timeline.endswith("surface"):
                told["is_buffer"] = row["is_buffer"] = choose.random() < 0.5
        packets.append(packet(time, **{f"{timeline}_frame_start": told}))
        rows.append(row)
        open_rows[cookie] = row
    return packets, rows


@pytest.mark.sanitized
def test_frames_are_what_naive_pairing_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoder, "_ROWS", 64)  # so that the table is full again and again
    for seed in range(20):
        packets, rows = made_frames(random.Random(seed))
        staging, frames = read(trace(*packets))
        assert staging.events == {"frame_timeline_event": len(packets)} and not staging.losses
        wanted = pl.DataFrame([{**dict.fromkeys(frames.columns), **row} for row in rows], schema=frames.schema)
        assert frames["ts_ns"].is_sorted()
        assert frames.sort(frames.columns).equals(wanted.sort(frames.columns))
        times = [*frames["ts_ns"], *frames["end_ns"].drop_nulls()]
        if times:
            assert (staging.first_ns, staging.last_ns) == (min(times), max(times))


@pytest.mark.sanitized
def test_times_are_those_of_the_traced_clock() -> None:
    start = {"actual_surface_frame_start": {"cookie": 1, "token": 1}}
    end = {"frame_end": {"cookie": 1}}
    snapshot = clocks(boot=10_000, mono=9_000, realtime=50_000)
    packets = (packet(100, MONOTONIC, **start), packet(140, MONOTONIC, **end))
    _, frames = read(trace(snapshot, *packets))
    assert frames.select("ts_ns", "end_ns").rows() == [(1_100, 1_140)]
    mono = bundle(ftrace_clock=4, ftrace_timestamp=5_000, boot_timestamp=6_500)
    _, frames = read(trace(snapshot, *packets, mono))
    assert frames.select("ts_ns", "end_ns").rows() == [(-400, -360)]
    staging, frames = read(trace(*packets))
    assert frames.is_empty()
    assert [(loss.kind, loss.count) for loss in staging.losses] == [("clock", 1)]


@pytest.mark.sanitized
def test_what_is_damaged_is_counted() -> None:
    good = trace(packet(5, actual_surface_frame_start={"cookie": 1, "layer_name": "x" * 20}))
    cut = bytearray(good)
    cut[good.index(b"x" * 20) - 1] = 60  # the name goes on behind the end
    untimed = messages.Trace(packet=[{"frame_timeline_event": {"frame_end": {"cookie": 1}}}]).SerializeToString()
    cookieless = trace(packet(5, frame_end={}))
    lowest = trace(packet(5, frame_end={"cookie": -(2**63)}))
    staging, frames = read(bytes(cut) + untimed + cookieless + lowest + good)
    assert frames.height == 1
    assert {loss.message for loss in staging.losses} == {
        "1 packets are damaged; their contents are lost",
        "3 events are damaged",
    }


def test_a_trace_of_frames_is_a_capture(tmp_path: Path) -> None:
    path = tmp_path / "a.pftrace"
    shown = {"cookie": 2, "token": 7, "present_type": 1}
    surface = {
        "cookie": 1,
        "token": 5,
        "display_frame_token": 7,
        "pid": 99,
        "present_type": 2,
        "layer_name": "TX - app",
    }
    path.write_bytes(
        trace(
            packet(10, actual_surface_frame_start=surface),
            packet(20, frame_end={"cookie": 1}),
            packet(22, actual_display_frame_start=shown),
            packet(30, frame_end={"cookie": 2}),
        )
    )
    opened = androstep.open(path)
    assert opened.frames.collect()["layer"].to_list() == ["TX - app", None]
    assert opened.window(20, 30).frames.collect().height == 1
    assert (opened.first_ns, opened.last_ns) == (10, 30)


def test_a_recorded_trace_of_a_phone_has_no_frames_of_the_timeline() -> None:
    """It was recorded by Chrome, without SurfaceFlinger's data source: nothing is made up of its own slices."""
    path = corpus.path("perfetto/pixel4a5g_scrolling_with_blocked_nonblocked_frames.pftrace")
    opened = androstep.open(path)
    assert opened.events["track_event"] == 76_251
    assert opened.frames.collect().is_empty()


@pytest.mark.skipif(not PEER.is_dir(), reason="no trace processor (tests/support/trace_processor.mjs)")
@pytest.mark.parametrize("seed", range(3))
def test_trace_processor_reads_the_same_frames(seed: int, tmp_path: Path) -> None:
    """Its tables lack slices without an end, and join slices with a common cookie. The recordings here have neither."""
    choose = random.Random(seed)
    packets = []
    for cookie in range(1, 60):
        begin = 1000 * cookie
        kind = choose.choice(["actual_surface", "actual_display"])
        told: dict[str, Any] = {"cookie": cookie, "token": cookie, "pid": 1000, "present_type": choose.randrange(1, 5)}
        told |= {"jank_type": 1, "prediction_type": 1, "on_time_finish": True, "gpu_composition": False}
        told |= {"display_frame_token": 7, "layer_name": "TX - a"} if kind == "actual_surface" else {}
        packets.append(packet(begin, **{f"{kind}_frame_start": told}))
        packets.append(packet(begin + choose.randrange(1, 900), frame_end={"cookie": cookie}))
    data = trace(*packets)
    (tmp_path / "a.pftrace").write_bytes(data)
    columns = "ts, dur, surface_frame_token, display_frame_token, layer_name, present_type"
    query = f"select {columns} from actual_frame_timeline_slice order by ts"
    script = Path(__file__).resolve().parents[1] / "support" / "trace_processor.mjs"
    words = ["node", str(script), str(PEER), str(tmp_path / "a.pftrace"), query]
    told_by_peer = subprocess.run(words, capture_output=True, text=True, check=True, timeout=300).stdout
    names = {"on_time": "On-time Present", "late": "Late Present", "early": "Early Present", "dropped": "Dropped Frame"}
    _, frames = read(data)
    ours = []
    for row in frames.iter_rows(named=True):
        is_surface = row["timeline"] == "actual_surface"
        tokens = (row["token"], row["display_token"]) if is_surface else (None, row["token"])
        row_ = (row["ts_ns"], row["end_ns"] - row["ts_ns"], *tokens, row["layer"], names[row["present"]])
        ours.append("\t".join("null" if value is None else str(value) for value in row_))
    assert told_by_peer.splitlines() == ours
