"""Latency and depth of commands, against plain Python that goes through the events one by one."""

from __future__ import annotations

import math
import random
from typing import Any

import polars as pl
import pytest
from support import corpus

import androstep_analysis as androstep
from androstep_analysis import measures
from androstep_analysis.common.losses import Loss, Losses

READ, WRITE, FLUSH = 0x28, 0x2A, 0x35
NAMES = {READ: "read", WRITE: "write", FLUSH: "flush"}


def event(at: int, step: str, tag: int | None, opcode: int, **more: Any) -> dict[str, Any]:
    told = {"ts_ns": at, "event": "ufshcd_command", "step": step, "device": "ufs", "tag": tag, "opcode": opcode}
    return told | {"nr_bytes": 4096} | more


def table(events: list[dict[str, Any]]) -> pl.DataFrame:
    return pl.DataFrame(events, schema_overrides={"tag": pl.Int32, "nr_bytes": pl.Int64})


def found(events: list[dict[str, Any]], **options: Any) -> dict[str, dict[str, float | None]]:
    told: dict[str, dict[str, float | None]] = {}
    for operation, metric, value in (
        measures.command_latency(table(events), **options).select("operation", "metric", "value").iter_rows()
    ):
        told.setdefault(operation, {})[metric] = value
    return told


@pytest.mark.parametrize("seed", range(3))
def test_commands_of_many_slots(seed: int) -> None:
    draw = random.Random(seed)
    events, took, under_way, most = [], {name: [] for name in NAMES.values()}, {}, dict.fromkeys(NAMES.values(), 0)
    unfinished = dict.fromkeys(NAMES.values(), 0)
    at = 0
    for _ in range(600):
        at += draw.randrange(1, 50)
        tag = draw.randrange(8)
        if tag in under_way and draw.random() < 0.95:
            begin, opcode = under_way.pop(tag)
            events.append(event(at, "complete", tag, opcode))
            took[NAMES[opcode]].append((begin, at))
        else:
            if tag in under_way:
                unfinished[NAMES[under_way[tag][1]]] += 1
            under_way[tag] = at, draw.choice(list(NAMES))
            events.append(event(at, "send", tag, under_way[tag][1]))
    for _, opcode in under_way.values():
        unfinished[NAMES[opcode]] += 1
    told = found(events)
    first = events[0]["ts_ns"]
    last = max(end for spans in took.values() for _, end in spans)
    for name, spans in took.items():
        lengths = sorted(end - begin for begin, end in spans)
        most[name] = max(sum(begin <= at < end for begin, end in spans) for at, _ in spans)
        assert told[name]["unfinished"] == unfinished[name]
        assert told[name]["commands"] == len(spans) + unfinished[name]
        assert told[name]["bytes"] == 4096 * told[name]["commands"]
        for quantile, share in (("p50", 0.5), ("p99", 0.99), ("max", 1.0)):
            assert told[name][f"latency_{quantile}"] == lengths[math.ceil(share * len(lengths)) - 1]
        assert told[name]["mean_depth"] == pytest.approx(sum(lengths) / (last - first))
        assert told[name]["max_depth"] == most[name]


def test_layers_slots_and_losses() -> None:
    of_scsi = {"event": "scsi_dispatch_cmd_start", "device": "0:0:0:0"}
    both = [event(0, "send", 1, WRITE, **of_scsi), event(1, "send", 1, WRITE), event(9, "complete", 1, WRITE)]
    assert found(both)["write"]["commands"] == 1, "the same command of two layers"
    of_mmc = {"event": "mmc_request_start", "device": "mmc0"}
    one = [event(0, "send", None, 18, **of_mmc), event(5, "complete", None, 18, **of_mmc)]
    assert found(one)["read"]["latency_max"] == 5
    gone = Losses([Loss("overwritten", 1, "", ("commands",), None, ((2, 3),))])
    assert found(one, lost=gone)["read"]["latency_max"] is None
    assert found([event(0, "other", 1, READ)]) == {}
    assert set(measures.command_latency(table(one), by=("opcode",))["opcode"]) == {18}
    with pytest.raises(ValueError, match="colour: commands can be grouped by"):
        measures.command_latency(table(one), by=("colour",))


def test_an_emmc_of_others() -> None:
    told = measures.command_latency(androstep.open(corpus.path("field/T07_mmc.txt")).commands)
    assert dict(told.select("metric", "value").iter_rows())["commands"] == 1
