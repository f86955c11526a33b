"""A device may send anything of any length: this machine prints one message and does not run out of memory."""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from adbd import phone
from adbd.messages import CLSE, CNXN, OKAY, OPEN, VERSION_CHECKSUMS, WRTE, Lost, receive
from hypothesis import given, settings
from hypothesis import strategies as st
from support.devices import device, home

from androstep_analysis.device import DeviceError, connect
from androstep_analysis.device.transport import MOST_ANSWER_BYTES, tcp
from androstep_analysis.device.transport.local import Local

MIB = 1 << 20
AUTH, SYNC = (int.from_bytes(name, "little") for name in (b"AUTH", b"SYNC"))


def packet(command: int, first: int, second: int, payload: bytes = b"", claimed: int | None = None) -> bytes:
    """Return a packet with a correct checksum, which may claim to be longer than it is."""
    size = len(payload) if claimed is None else claimed
    total = sum(payload) & 0xFFFFFFFF
    return struct.pack("<6I", command, first, second, size, total, command ^ 0xFFFFFFFF) + payload


GREETING = packet(CNXN, VERSION_CHECKSUMS, MIB, b"device::")

Speech = Callable[[], Iterator[bytes]]
"""What a device sends after the first stream was opened, regardless of the host's packets."""


@contextlib.contextmanager
def hostile(speech: Speech, greeting: Speech = lambda: iter([GREETING])) -> Iterator[str]:
    """Run a device that sends a greeting and, when a stream is opened, `speech`; yield its address.

    It then waits for the host to leave.
    """
    listener = socket.create_server(("127.0.0.1", 0))
    threads: list[threading.Thread] = []

    def serve(link: socket.socket) -> None:
        with link, contextlib.suppress(OSError, Lost):
            receive(link)
            for said in greeting():
                link.sendall(said)
            while receive(link).command != OPEN:
                pass
            taking = threading.Thread(target=take, args=(link,))
            threads.append(taking)
            taking.start()
            for said in speech():
                link.sendall(said)
            taking.join()

    def take(link: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while link.recv(MIB):
                pass

    def listen() -> None:
        with contextlib.suppress(OSError):
            while True:
                thread = threading.Thread(target=serve, args=(listener.accept()[0],))
                threads.append(thread)
                thread.start()

    listening = threading.Thread(target=listen)
    listening.start()
    try:
        yield f"127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        listening.join()
        for thread in threads:
            thread.join()


def opened(*said: bytes) -> Iterator[bytes]:
    """Return the packets that open the first stream with id 1; adb-shell numbers its own from 1, too."""
    return iter([packet(OKAY, 1, 1), *said])


def endlessly(said: bytes) -> Speech:
    return lambda: itertools.chain(opened(), itertools.repeat(said))


FULL = packet(WRTE, 1, 1, bytes(MIB))
LIES: dict[str, tuple[Speech, Speech]] = {
    "a packet of 4 GiB": (
        lambda: itertools.chain(opened(packet(WRTE, 1, 1, claimed=(1 << 32) - 1)), itertools.repeat(bytes(MIB))),
        lambda: iter([GREETING]),
    ),
    "an answer without end": (endlessly(FULL), lambda: iter([GREETING])),
    "an answer byte by byte": (endlessly(packet(WRTE, 1, 1, b"x") * 5000), lambda: iter([GREETING])),
    "streams that nobody opened": (
        lambda: itertools.chain(opened(), (packet(WRTE, 7, 1 + n, b"x") for n in itertools.count(1))),
        lambda: iter([GREETING]),
    ),
    "empty packets": (endlessly(packet(OKAY, 3, 3) * 5000), lambda: iter([GREETING])),
    "a greeting of 4 GiB": (
        opened,
        lambda: itertools.chain(
            [packet(CNXN, VERSION_CHECKSUMS, MIB, claimed=(1 << 32) - 1)], itertools.repeat(bytes(MIB))
        ),
    ),
    "packets before the greeting": (opened, lambda: itertools.repeat(packet(SYNC, 0, 0, bytes(MIB)))),
}

CHILD = """
import resource, sys
from androstep_analysis.device import DeviceError, connect
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
with open("/proc/self/statm") as statm:
    size = int(statm.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (size + (1 << 30), -1))
try:
    with connect(sys.argv[1], patience_s=0) as device:
        if sys.argv[2] == "run":
            device.sh(["true"])
        else:
            device.copy_in(sys.executable, "/data/local/tmp/x")
except DeviceError as error:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, error)
"""


def memory_growth(address: str, doing: str, place: Path) -> tuple[int, str]:
    """Run a program that talks to a device; return its growth in bytes and its final message."""
    done = subprocess.run(
        [sys.executable, "-c", CHILD, address, doing],
        capture_output=True,
        text=True,
        timeout=300,
        env=os.environ | {"HOME": str(place)},
    )
    assert done.returncode == 0 and done.stdout, done.stderr[-2000:]
    grown, _, sentence = done.stdout.strip().partition(" ")
    return int(grown) << 10, sentence


@pytest.mark.prove
@pytest.mark.parametrize("lie", LIES)
def test_what_a_device_sends_does_not_fill_the_memory(tmp_path: Path, lie: str) -> None:
    """An answer exists in a few copies at most."""
    with hostile(*LIES[lie]) as address:
        grown, sentence = memory_growth(address, "run", tmp_path)
    assert sentence.startswith(f"{address}: ")
    assert "\n" not in sentence
    assert grown < 6 * MOST_ANSWER_BYTES


@pytest.mark.prove
@pytest.mark.parametrize("size", [MIB, 1 << 30, (1 << 32) - 1])
def test_a_refusal_of_a_push_is_bounded(tmp_path: Path, size: int) -> None:
    said = packet(WRTE, 1, 1, b"FAIL" + struct.pack("<I", size))
    with hostile(lambda: itertools.chain(opened(packet(OKAY, 1, 1), said), itertools.repeat(FULL))) as address:
        grown, sentence = memory_growth(address, "push", tmp_path)
    assert sentence.startswith(f"{address}: ")
    assert grown < 6 * MOST_ANSWER_BYTES


SAID = st.one_of(
    st.binary(max_size=60),
    st.builds(
        packet,
        st.sampled_from([AUTH, CLSE, CNXN, OKAY, OPEN, SYNC, WRTE]),
        st.sampled_from([0, 1, 2, (1 << 32) - 1]),
        st.sampled_from([0, 1, 2, (1 << 32) - 1]),
        st.one_of(st.binary(max_size=80), st.sampled_from([20, 250, 65536, MIB]).map(bytes)),
        st.sampled_from([None, None, None, 0, 1, 80, MIB + 1, 1 << 31, (1 << 32) - 1]),
    ),
)


@pytest.mark.prove
@settings(max_examples=60)
@given(greeting=st.lists(SAID, max_size=3), said=st.lists(SAID, max_size=6), is_greeted=st.booleans())
def test_whatever_a_device_says_is_one_sentence(greeting: list[bytes], said: list[bytes], is_greeted: bool) -> None:
    """Afterwards the device ends the connection, as if it was switched off."""

    def speech() -> Iterator[bytes]:
        yield from opened(*said)
        raise OSError

    def greet() -> Iterator[bytes]:
        yield from [GREETING] if is_greeted else greeting
        if not is_greeted:
            raise OSError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("androstep_analysis.device.transport.adb_protocol._ACCEPT_S", 0.1)
        with hostile(speech, greet) as address, pytest.raises(DeviceError) as caught, connect(address, patience_s=0):
            pass
    assert str(caught.value).startswith(f"{address}: ")


@pytest.mark.parametrize("size", [0, 19, 21, 250, MIB])
def test_a_token_of_another_size_is_one_sentence(tmp_path: Path, size: int) -> None:
    greeting = [packet(AUTH, 1, 0, bytes(size))]
    with home(tmp_path), hostile(opened, lambda: iter(greeting)) as address:
        with pytest.raises(DeviceError, match=rf"an authentication token of {size:,} bytes instead of 20") as caught:
            tcp.device(address).run("true", timeout_s=10)
        assert len(str(caught.value)) < 200


def test_what_a_device_says_is_quoted_in_part(tmp_path: Path) -> None:
    greeting = [packet(AUTH, 7, 0, bytes(MIB))]
    with home(tmp_path), hostile(opened, lambda: iter(greeting)) as address:
        with pytest.raises(DeviceError, match="Unknown AUTH response: 7 0") as caught:
            tcp.device(address).run("true", timeout_s=10)
        assert len(str(caught.value)) < 400


def test_a_command_here_that_writes_without_end_is_ended(tmp_path: Path) -> None:
    with pytest.raises(DeviceError, match=r"local: the answer to one command is longer than 32 MiB; have the command"):
        Local().run(f"echo $$ >{tmp_path}/pid; exec cat /dev/zero", timeout_s=60)
    pid = int((tmp_path / "pid").read_text())
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@pytest.mark.prove
@pytest.mark.parametrize("way", ["tcp", "adb"])
def test_a_phone_that_writes_without_end_is_not_listened_to(tmp_path: Path, way: str) -> None:
    with device(way, tmp_path, patience_s=0) as (connected, _):
        with pytest.raises(DeviceError, match=r"the answer to one command is longer than 32 MiB"):
            connected.script("cat /dev/zero")
        assert connected.sh(["echo", "again"]).text == "again\n"


@pytest.mark.root
def test_what_fits_is_an_answer(tmp_path: Path) -> None:
    with device("tcp", tmp_path) as (connected, _):
        assert connected.script(f"head -c {30 * MIB} /dev/zero").output == bytes(30 * MIB)


def test_a_file_larger_than_the_room_here_is_refused(tmp_path: Path) -> None:
    with home(tmp_path), phone(tmp_path) as fake:
        fake.install("wc", "#!/bin/sh\necho 900000000000000000\n")
        (fake.tmp / "file").write_text("short")
        with connect(fake.address) as connected, pytest.raises(DeviceError, match=r"has 900,000,000,000,000,000 bytes"):
            connected.pull("/data/local/tmp/file", tmp_path / "out")
    assert not (tmp_path / "out.part").exists()


@pytest.mark.prove
def test_a_line_without_end_is_handed_on_in_parts() -> None:
    lines: list[str] = []
    with connect("local") as connected:
        written = "i=0; while [ $i -lt 5 ]; do head -c 1000000 /dev/zero | tr '\\0' x >&2; i=$((i+1)); sleep 0.3; done"
        assert connected.stream(["sh", "-c", written], lines.append) == 0
    assert sum(map(len, lines)) == 5_000_000
    assert max(map(len, lines)) < 4_000_000
