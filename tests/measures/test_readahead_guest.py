"""Bytes that were read and never requested, with iotrace's own probes for kernels before Linux 6.12."""

from __future__ import annotations

from pathlib import Path

import pytest
from harness import build, guest, kernel
from support import built

import androstep_analysis as androstep
from androstep_analysis import measures
from androstep_analysis.measures.recording import Recording

PAGE = 4096
ASKED = {"head": 2, "strided": 10, "whole": 1024, "beyond": 2, "sent": 4, "mapped": 3, "written": 1}
"""Pages of the files, of 1,024 each, that asks.c asks for."""
WINDOW = 32
"""Pages that the kernel reads ahead at most."""

SCRIPT = f"""set -x
mount -t {{fs_type}} /dev/vda /mnt || return
for name in {" ".join(ASKED)} ahead direct; do head -c 4194304 /dev/urandom >/mnt/$name; done
umount /mnt; mount -t {{fs_type}} /dev/vda /mnt || return
iotrace -o /tmp/out/recording --device /dev/vda --preset block+fs --readahead -- asks /mnt
"""


@pytest.mark.prove
@pytest.mark.parametrize(
    ("fs_type", "wanted", "target"),
    [
        ("ext4", kernel.Wanted("bookworm"), "x86_64-linux-musl"),
        ("f2fs", kernel.Wanted("bullseye", "arm64"), "aarch64-linux-musl"),
        ("vfat", kernel.Wanted("bookworm"), "x86_64-linux-musl"),
    ],
    ids=["6.1-ext4", "5.10-arm64-f2fs", "6.1-vfat"],
)
def test_what_a_program_asked_for(tmp_path: Path, fs_type: str, wanted: kernel.Wanted, target: str) -> None:
    if lacking := guest.missing(wanted.architecture):
        pytest.skip(lacking)
    try:
        kernel.debian(wanted)
    except OSError as error:
        pytest.skip(f"needs what cannot be fetched: {error}")
    programs = [built.program("iotrace", target), build.tool("asks", wanted.architecture)]
    guest.run(tmp_path, fs_type, programs, SCRIPT.format(fs_type=fs_type), log_writes=False, wanted=wanted)
    capture = androstep.open(tmp_path / "recording")
    recording = Recording.of(capture)
    table = measures.readahead(
        capture.tables, by=("path",), page_bytes=PAGE, recorded=recording.events, lost=recording.losses
    )
    rows = table.filter(metric="bytes").select("path", "part", "value").rows()
    found: dict[str, dict[str, float]] = {}
    for path, part, value in rows:
        found.setdefault(path.removeprefix("/"), {})[part] = value / PAGE
    assert found.pop("direct") == {"direct": 1}
    assert found.pop("ahead").keys() == {"pending"}
    # FAT reads the one block of 512 bytes that is written in part.
    written = {"written": 512 / PAGE} if fs_type == "vfat" else {}
    assert {name: parts["asked"] for name, parts in found.items()} == ASKED | written
    assert all(parts.keys() <= {"asked", "pending", "mapped"} for parts in found.values())
    assert {name for name, parts in found.items() if "mapped" in parts} == {"mapped"}
    assert sum(found["head"].values()) <= WINDOW and sum(found["whole"].values()) == 1024
