"""Each operation during a fault: the messages, the results here, and the remains on the device."""

from __future__ import annotations

import contextlib
import itertools
import re
import socket
import threading
from pathlib import Path

import pytest
from adbd import phone
from adbd.messages import CLSE, CNXN, VERSION, WRTE, Message
from support.device_faults import BLOCKS, CELLS, FAULTS, Fault, outcome
from support.devices import home, needs_probe
from support.needs import left_to_prove
from support.tree import ROOT

from androstep_analysis.cli import main
from androstep_analysis.device import DeviceError, LinkLost, connect
from androstep_analysis.device.transport.adb_protocol import AdbProtocol

pytestmark = pytest.mark.root

LOST = "PHONE: the link to the device was lost (…); check cable or network"
AGAIN = f"{LOST} (trying again for 60 s; what runs on the device goes on)"
NOBODY = "PHONE: no device listens there; run `adb tcpip 5555` on it once, and check its address"
MAYBE = f"{NOBODY}; /data/local/tmp/androstep-… may be left on the device"
RESTARTED = f"{MAYBE}; (?:{LOST}|{NOBODY})"
ENDED = "iotrace: … events in /data/local/tmp/androstep-…/recording/trace.dat, 0 lost; ended by: signal"
KEPT = (
    "the recording is kept in /data/local/tmp/androstep-… on the device until it restarts; fetch it with "
    "`androstep record --on PHONE --recover -o CAPTURE`"
)
SLAIN = "PHONE: {} was killed, as when memory is short; run it again"
SAMPLES_CUT = (
    "PHONE: procmon failed: …; …/samples.rec: the file has no trailer: it was truncated, or the probe was "
    "killed; later records and losses are unknown…"
)
WHOLE = {
    "push": "copied",
    "pull": "copied",
    "bench": "status 0, 1 run",
    "replay": "status 0, 1 run",
    "record": f"{BLOCKS // 2} of {BLOCKS // 2} requests",
    "monitor": "samples",
}

TABLE = {
    **{("link lost once", operation): (AGAIN, kept, "nothing") for operation, kept in WHOLE.items()},
    ("link lost once", "record"): (f"{AGAIN}; {ENDED}", WHOLE["record"], "nothing"),
    **{("device restarts", operation): (RESTARTED, "nothing", "gone") for operation in WHOLE},
    ("device restarts", "pull"): (LOST, "nothing", "gone"),
    ("device restarts", "record"): (f"{KEPT}; {RESTARTED}", "nothing", "gone"),
    ("byte damaged", "push"): ("", "copied", "nothing"),
    ("slow link", "push"): ("", "copied", "nothing"),
    ("slow link", "pull"): ("", "copied", "nothing"),
    ("disk too small", "push"): (
        "PHONE: 5.0 MB do not fit into /data/local/tmp/androstep-…, where … MB are free; make room on the device",
        "nothing",
        "nothing",
    ),
    ("disk gets full", "bench"): ("", WHOLE["bench"], "nothing"),
    # iotrace's messages go to a file on the full disk. It may get a page that was just freed.
    ("disk gets full", "record"): (
        f"…{KEPT}; PHONE: iotrace did not finish; its last events may be lost; PHONE: cannot assemble the files that "
        "iotrace left: iotrace: trace.dat: No space left on device; make room, then run iotrace --finish",
        "nothing",
        "androstep-…",
    ),
    ("no root", "bench"): ("", WHOLE["bench"], "nothing"),
    ("no root", "record"): (
        "PHONE: no root access, which a preset, read-ahead, a choice of devices and samples need; root the device, or "
        "allow adb's shell to use su",
        "nothing",
        "nothing",
    ),
    ("no root", "monitor"): ("", WHOLE["monitor"], "nothing"),
    ("no tracefs", "record"): (
        "PHONE: iotrace did not start: iotrace: no tracefs with instances at /sys/kernel/tracing or "
        "/sys/kernel/debug/tracing and none can be mounted; this needs a kernel from 3.10 on with CONFIG_TRACING",
        "nothing",
        "nothing",
    ),
    ("probe killed", "bench"): (f"Killed; {SLAIN.format('iobench')}", "status 137, no capture", "nothing"),
    ("probe killed", "replay"): (
        f"Killed; {SLAIN.format('ioreplay')}; "
        "…/replay.rec: has 0 replays instead of one, so it is truncated or damaged; replay again",
        "nothing",
        "replay",
    ),
    ("probe killed", "monitor"): (SAMPLES_CUT, WHOLE["monitor"], "nothing"),
}
"""By fault and operation: the messages (with … for what differs), the result here, and what remains on the phone."""


@pytest.fixture(autouse=True)
def probes() -> None:
    for name in ("iobench", "ioreplay", "iotrace", "procmon"):
        needs_probe(name)


def fits(template: str, text: str) -> bool:
    """Return whether the text matches the template, with anything for each … and one of the alternatives."""
    pattern = re.escape(template).replace("…", ".*").replace(r"\(\?:", "(?:").replace(r"\|", "|")
    if "(?:" in pattern:  # the group of alternatives ends the template
        pattern = pattern.removesuffix(r"\)") + ")"
    return re.fullmatch(pattern, text) is not None


@pytest.mark.parametrize(
    ("fault", "operation"), left_to_prove(CELLS, lambda cell: cell[1] == "record" or cell[0] == "link lost once")
)
def test_what_is_said_kept_and_left(tmp_path: Path, fault: str, operation: str) -> None:
    said, kept, left = TABLE[fault, operation]
    found = outcome(FAULTS[fault], operation, tmp_path)
    assert fits(said, found.said), found.said
    assert found.kept == kept
    assert fits(left, found.left), found.left


@pytest.mark.parametrize("operation", left_to_prove(WHOLE, {"record", "push"}.__contains__))
@pytest.mark.parametrize("is_run", [False, True], ids=["before it is run", "after it was run"])
def test_every_command_may_be_lost_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, operation: str, is_run: bool
) -> None:
    """The link breaks at each command, before the device gets it, or while the answer is in transit."""
    run, numbers = AdbProtocol.run, itertools.count()

    def losing(link: AdbProtocol, line: str, *, timeout_s: float) -> bytes:
        is_lost = next(numbers) % 2 == 1  # the first one connects; then every second one is a retry
        answer = b"" if is_lost and not is_run else run(link, line, timeout_s=timeout_s)
        if is_lost:
            raise LinkLost("cut")
        return answer

    monkeypatch.setattr(AdbProtocol, "run", losing)
    monkeypatch.setattr("androstep_analysis.device.session.shell._AGAIN_S", 0)
    monkeypatch.setattr("support.device_faults.LONG_S", "1")
    found = outcome(Fault("lost answers"), operation, tmp_path)
    assert (found.kept, found.left) == (WHOLE[operation], "nothing"), found.said


def test_every_cell_is_expected() -> None:
    assert TABLE.keys() == set(CELLS)


def test_the_guide_tells_of_each_fault() -> None:
    guide = (ROOT / "docs" / "device.md").read_text("utf-8").partition("## When something breaks")[2]
    assert [fault for fault in FAULTS if f"| {fault} |" not in guide] == []


# -- devices that mean harm -------------------------------------------------------------------------------------------


def test_what_a_device_says_cannot_steer_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with home(tmp_path), phone(tmp_path) as fake:
        fake.install("mkdir", r"printf '\033[2J\033]0;x\007' >&2; exit 1")
        assert main(["bench", "--on", fake.address, "-o", str(tmp_path / "capture"), "--", "--rw", "write"]) != 0
    said = capsys.readouterr()
    assert "make a directory" in said.err
    assert not {"\x1b", "\x07"} & set(said.out + said.err)


@pytest.mark.parametrize("kind", ["another's directory", "a link", "a file"])
def test_no_directory_but_our_own_is_believed_to_be_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr("secrets.token_hex", lambda _: "0123456789abcdef")
    with home(tmp_path), phone(tmp_path) as fake:
        there = fake.tmp / "androstep-0123456789abcdef"
        if kind == "another's directory":
            there.mkdir()
        elif kind == "a link":
            there.symlink_to("/data/app")
        else:
            there.touch()
        with connect(fake.address) as device, pytest.raises(DeviceError, match="make a directory"):
            device.new_directory(device.scratch)


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 400 Bad Request\r\n\r\n" * 4,
        bytes(24),
        b"\xff" * 48,
        Message(CNXN, VERSION, 1 << 20, b"device::\0").packed(VERSION) + b"\xff" * 24,
        Message(CNXN, VERSION, 1 << 20, b"device::\0").packed(VERSION)
        + Message(CLSE, 0, 1).packed(VERSION)
        + Message(WRTE, 7, 7, b"\x1b[2J" * 9).packed(VERSION),
    ],
    ids=["HTTP", "zeros", "ones", "ones later", "nothing opens"],
)
def test_who_speaks_another_protocol_is_one_sentence(tmp_path: Path, answer: bytes) -> None:
    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                link, _ = listening.accept()
                with link, contextlib.suppress(OSError):
                    link.sendall(answer)
                    link.shutdown(socket.SHUT_WR)
                    while link.recv(1 << 16):
                        pass

    with home(tmp_path), socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            with pytest.raises(DeviceError, match=r"^127\.0\.0\.1:\d+: [^\x1b]*$"):
                connect(f"127.0.0.1:{listening.getsockname()[1]}", patience_s=0)
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join()
