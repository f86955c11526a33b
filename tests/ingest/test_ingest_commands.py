"""Commands to the device in trace.dat: the fields of various kernels and the columns they fill."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from support import readers
from support.tracedat_files import File, Machine, event_format

MACHINES = [Machine(), Machine(big_endian=True, long_bytes=4)]
COLUMNS = ("event", "step", "device", "tag", "opcode", "lba", "nr_blocks", "nr_bytes", "result")


def rows(directory: Path, machine: Machine, form: str, records: list[bytes]) -> pl.DataFrame:
    """Return table `commands` of records of one event."""
    page = machine.page(1000, b"".join(machine.record(10, machine.fields(1, 7, record)) for record in records))
    staging = readers.read_bytes(directory, File(machine, [("any", form)], [page], "7 kworker/0:1H\n").v6())
    table = staging.commands
    assert table["ts_ns"].to_list() == [1000 + 10 * n for n in range(1, len(records) + 1)]
    assert table.select("cpu", "tid", "comm").unique().rows() == [(0, 7, "kworker/0:1H")]
    return table.select(COLUMNS)


UFS_4_14 = [
    ("__data_loc char[] dev_name", 8, 4, 1), ("__data_loc char[] str", 12, 4, 1), ("unsigned int tag", 16, 4, 0),
    ("u32 doorbell", 20, 4, 0), ("int transfer_len", 24, 4, 1), ("u32 intr", 28, 4, 0), ("u64 lba", 32, 8, 0),
    ("u8 opcode", 40, 1, 0),
]  # fmt: skip


@pytest.mark.parametrize("machine", MACHINES, ids=str)
def test_ufs_with_the_step_as_text(tmp_path: Path, machine: Machine) -> None:
    """Linux 4.9 to 5.10, and Android kernels of that time, record the step as text."""

    def record(step: str, tag: int, length: int, lba: int, opcode: int) -> bytes:
        device, text = b"1d84000.ufshc\0", step.encode() + b"\0"
        places = len(device) << 16 | 44, len(text) << 16 | 44 + len(device)
        return machine.pack("IIIIiIQB3x", *places, tag, 1, length, 0, lba, opcode) + device + text

    none = (1 << 64) - 1
    table = rows(tmp_path, machine, event_format("ufshcd_command", 1, UFS_4_14), [
        record("send", 3, 4096, 1 << 33, 0x2A),
        record("complete", 3, 4096, 1 << 33, 0x2A),
        record("scsi_send", 31, -1, none, 0x35),
        record("scsi_cmpl", 31, -1, none, 0x35),
        record("dev_complete", 0, -1, none, 0),
        record("query_send", 0, -1, none, 0),
        record("sendx", 0, -1, none, 0),
    ])  # fmt: skip
    ufs = ("ufshcd_command",)
    assert table.rows() == [
        (*ufs, "send", "1d84000.ufshc", 3, 0x2A, 1 << 33, None, 4096, None),
        (*ufs, "complete", "1d84000.ufshc", 3, 0x2A, 1 << 33, None, 4096, None),
        (*ufs, "send", "1d84000.ufshc", 31, 0x35, None, None, None, None),
        (*ufs, "complete", "1d84000.ufshc", 31, 0x35, None, None, None, None),
        *[(*ufs, "other", "1d84000.ufshc", 0, 0, None, None, None, None)] * 3,
    ]


@pytest.mark.parametrize("machine", MACHINES, ids=str)
def test_ufs_with_the_step_as_number(tmp_path: Path, machine: Machine) -> None:
    """Linux 6.10: the device is a pointer, the steps are those of enum ufs_trace_str_t."""
    fields = [
        ("struct scsi_device * sdev", 8, machine.long_bytes, 0), ("enum ufs_trace_str_t str_t", 16, 4, 0),
        ("unsigned int tag", 20, 4, 0), ("u32 doorbell", 24, 4, 0), ("u32 hwq_id", 28, 4, 0), ("u32 intr", 32, 4, 0),
        ("u64 lba", 40, 8, 0), ("int transfer_len", 48, 4, 1), ("u8 opcode", 52, 1, 0), ("u8 group_id", 53, 1, 0),
    ]  # fmt: skip
    records = [machine.pack("8sIIIII4xQiBB2x", b"", step, 9, 0, 0, 0, 77, 8192, 0x28, 0) for step in range(4)]
    table = rows(tmp_path, machine, event_format("ufshcd_command", 1, fields), records)
    assert table["step"].to_list() == ["send", "complete", "other", "other"]
    assert table.drop("step").unique().rows() == [("ufshcd_command", None, 9, 0x28, 77, None, 8192, None)]


@pytest.mark.parametrize("machine", MACHINES, ids=str)
def test_a_ufs_command_without_a_size_has_no_location(tmp_path: Path, machine: Machine) -> None:
    """The driver reads both of some commands only, and records location 0 and size -1 of the others."""
    fields = [
        ("enum ufs_trace_str_t str_t", 8, 4, 0), ("unsigned int tag", 12, 4, 0), ("u64 lba", 16, 8, 0),
        ("int transfer_len", 24, 4, 1), ("u8 opcode", 28, 1, 0),
    ]  # fmt: skip
    sent = [(0, -1, 0x8A), (0, 4096, 0x28), (8, 0, 0x2A)]
    records = [machine.pack("IIQiB3x", 0, 9, lba, size, opcode) for lba, size, opcode in sent]
    table = rows(tmp_path, machine, event_format("ufshcd_command", 1, fields), records)
    assert table.select("lba", "nr_bytes", "opcode").rows() == [(None, None, 0x8A), (0, 4096, 0x28), (8, 0, 0x2A)]


@pytest.mark.parametrize("machine", MACHINES, ids=str)
def test_mmc(tmp_path: Path, machine: Machine) -> None:
    start = [
        ("u32 cmd_opcode", 8, 4, 0), ("u32 cmd_arg", 12, 4, 0), ("unsigned int blocks", 16, 4, 0),
        ("unsigned int blk_addr", 20, 4, 0), ("unsigned int blksz", 24, 4, 0), ("int tag", 28, 4, 1),
        ("__data_loc char[] name", 32, 4, 1),
    ]  # fmt: skip
    name = 5 << 16 | 36, b"mmc0\0"
    records = [
        machine.pack("IIIIIiI5s3x", opcode, 0, blocks, place, size, tag, *name)
        for opcode, blocks, place, size, tag in [(25, 8, 4000, 512, 2), (0, 1 << 20, 1 << 31, 4096, 5), (6, 0, 0, 0, 0)]
    ]
    table = rows(tmp_path, machine, event_format("mmc_request_start", 1, start), records)
    sent = ("mmc_request_start", "send", "mmc0")
    assert table.rows() == [
        (*sent, 2, 25, 4000, 8, 4096, None),
        (*sent, 5, 0, 1 << 31, 1 << 20, 1 << 32, None),
        (*sent, 0, 6, None, 0, 0, None),
    ]
    done = [
        ("u32 cmd_opcode", 8, 4, 0), ("int cmd_err", 12, 4, 1), ("u32 cmd_resp[4]", 16, 16, 0),
        ("int stop_err", 32, 4, 1), ("unsigned int bytes_xfered", 36, 4, 0), ("int data_err", 40, 4, 1),
        ("int tag", 44, 4, 1), ("__data_loc char[] name", 48, 4, 1),
    ]  # fmt: skip
    name = 5 << 16 | 52, b"mmc0\0"
    records = [
        machine.pack("Ii16siIiiI5s3x", 25, cmd, b"", stop, 4096, data, 2, *name)
        for cmd, data, stop in [(0, 0, 0), (-110, -84, -1), (0, -84, -1), (0, 0, -5)]
    ]
    table = rows(tmp_path, machine, event_format("mmc_request_done", 1, done), records)
    assert table["result"].to_list() == [0, -110, -84, -5]
    common = ("mmc_request_done", "complete", "mmc0", 2, 25, None, None, 4096)
    assert table.drop("result").unique().rows() == [common]


COMMANDS = {
    "28 00 00 01 02 03 00 00 08 00": (0x10203, 8),  # READ(10)
    "2a 00 ff ff ff ff 00 ff ff 00": ((1 << 32) - 1, (1 << 16) - 1),  # WRITE(10)
    "35 00 00 00 00 00 00 00 00 00": (0, 0),  # SYNCHRONIZE CACHE(10)
    "88 00 00 00 00 01 00 00 00 02 00 00 01 00 00 00": ((1 << 32) + 2, 256),  # READ(16)
    "8a 00 00 00 00 00 00 00 00 01 80 00 00 00 00 00": (1, 1 << 31),  # WRITE(16)
    "aa 00 00 00 00 07 00 00 00 09 00 00": (7, 9),  # WRITE(12)
    "08 1f ff ff 00 00": ((1 << 21) - 1, 256),  # READ(6): no length is the longest
    "0a 01 00 02 03 00": ((1 << 16) + 2, 3),  # WRITE(6)
    "12 00 00 00 24 00": (None, None),  # INQUIRY
    "42 00 00 00 00 00 00 00 18 00": (None, None),  # UNMAP
    "28 00 00": (None, None),  # cut short
    "8a 00 ff ff ff ff ff ff ff ff 00 00 00 01 00 00": (None, 1),  # no place of the table can be as far as that
}
"""Command bytes according to SBC-4, and their first block and number of blocks."""


@pytest.mark.parametrize("machine", MACHINES, ids=str)
@pytest.mark.parametrize("name", ["start", "done", "error", "timeout"])
def test_scsi(tmp_path: Path, machine: Machine, name: str) -> None:
    result = "rtn" if name == "error" else "result"
    fields = [
        ("unsigned int host_no", 8, 4, 0), ("unsigned int channel", 12, 4, 0), ("unsigned int id", 16, 4, 0),
        ("unsigned int lun", 20, 4, 0), (f"int {'other' if name == 'start' else result}", 24, 4, 1),
        ("unsigned int opcode", 28, 4, 0), ("unsigned int driver_tag", 32, 4, 0),
        ("__data_loc unsigned char[] cmnd", 36, 4, 0),
    ]  # fmt: skip
    commands = [bytes.fromhex(text) for text in COMMANDS]
    records = [
        machine.pack("IIIIiIII", 2, 0, 1, 3, -7, command[0], 11, len(command) << 16 | 40) + command
        for command in commands
    ]
    table = rows(tmp_path, machine, event_format(f"scsi_dispatch_cmd_{name}", 1, fields), records)
    assert table.select("lba", "nr_blocks").rows() == list(COMMANDS.values())
    assert table["opcode"].to_list() == [command[0] for command in commands]
    step = {"start": "send", "done": "complete"}.get(name, "other")
    said = (f"scsi_dispatch_cmd_{name}", step, "2:0:1:3", 11, None, None if name == "start" else -7)
    assert table.drop("lba", "nr_blocks", "opcode").unique().rows() == [said]
