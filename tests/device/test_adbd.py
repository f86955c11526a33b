"""The fake phone against real clients, Debian's adb and adb-shell: results are equal, and faults take effect."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shlex
import shutil
import socket
import struct
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pytest
from adb_shell.adb_device import AdbDeviceTcp
from adb_shell.auth.keygen import keygen
from adb_shell.auth.sign_pythonrsa import PythonRSASigner
from adb_shell.exceptions import AdbConnectionError, DeviceAuthError
from adbd import EMMC, LOCKED, ODD, PIXEL, FakePhone, Faults, Model, phone
from adbd.messages import CLSE, CNXN, OKAY, OPEN, VERSION, VERSION_CHECKSUMS, WRTE, Lost, Message, receive
from adbd.models import TOOLS
from support.built import program

pytestmark = pytest.mark.root

TIMEOUT_S = 120

OLD: tuple[str, ...] = ()
"""The features of an adbd before Android 7."""


@pytest.fixture(autouse=True)
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Set a home directory for each test's keys, and an adb server there, which is ended."""
    if shutil.which("adb") is None:
        pytest.skip("adb is not installed")
    home = tempfile.mkdtemp(prefix="adb")  # short, because it becomes a socket address
    monkeypatch.setenv("HOME", home)
    monkeypatch.setenv("ADB_SERVER_SOCKET", f"localfilesystem:{home}/server")
    yield
    if Path(home, "server").exists():
        adb("kill-server")
    shutil.rmtree(home)


def adb(*words: str | Path, input: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
    """Run adb to its end."""
    return subprocess.run(["adb", *words], input=input or b"", capture_output=True, timeout=TIMEOUT_S)


# -- what clients say -------------------------------------------------------------------------------------------------


class Client(Protocol):
    """The operations of both clients."""

    def sh(self, line: str) -> bytes: ...
    def push(self, source: Path, target: str) -> None: ...
    def pull(self, source: str, target: Path) -> None: ...
    def entries(self, path: str) -> dict[str, tuple[int, int]]: ...
    def mode_and_size(self, path: str) -> tuple[int, int]: ...


@dataclass(frozen=True)
class Debians:
    """Debian's adb."""

    address: str

    def run(self, *words: str | Path, input: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
        """Run adb for this device."""
        return adb("-s", self.address, *words, input=input)

    def sh(self, line: str) -> bytes:
        return self.run("exec-out", line).stdout

    def push(self, source: Path, target: str) -> None:
        done = self.run("push", source, target)
        assert done.returncode == 0, done.stderr

    def pull(self, source: str, target: Path) -> None:
        done = self.run("pull", source, target)
        assert done.returncode == 0, done.stderr

    def entries(self, path: str) -> dict[str, tuple[int, int]]:
        lines = self.run("ls", path).stdout.decode().splitlines()
        found = [line.split(" ", 3) for line in lines]
        return {name: (int(mode, 16), int(size, 16)) for mode, size, _, name in found}

    def mode_and_size(self, path: str) -> tuple[int, int]:
        return self.entries(path.rpartition("/")[0])[path.rpartition("/")[2]]


@dataclass(frozen=True)
class AdbShell:
    """The package adb-shell."""

    device: AdbDeviceTcp

    def sh(self, line: str) -> bytes:
        answer: bytes = self.device.exec_out(line, decode=False)
        return answer

    def push(self, source: Path, target: str) -> None:
        self.device.push(str(source), target, st_mode=source.stat().st_mode)

    def pull(self, source: str, target: Path) -> None:
        self.device.pull(source, str(target))

    def entries(self, path: str) -> dict[str, tuple[int, int]]:
        return {bytes(file.filename).decode(): (file.mode, file.size) for file in self.device.list(path)}

    def mode_and_size(self, path: str) -> tuple[int, int]:
        mode, size, _ = self.device.stat(path)
        return mode, size


@contextlib.contextmanager
def by_adb(address: str) -> Iterator[Debians]:
    """Connect Debian's adb."""
    adb("connect", address)
    adb("-s", address, "wait-for-device")  # it prints "failed to authenticate" while the user is asked
    yield Debians(address)


@contextlib.contextmanager
def by_adb_shell(address: str, keys: Any = None) -> Iterator[AdbShell]:
    """Connect adb-shell."""
    host, _, port = address.partition(":")
    device = AdbDeviceTcp(host, int(port), default_transport_timeout_s=TIMEOUT_S)
    try:
        device.connect(rsa_keys=keys, auth_timeout_s=TIMEOUT_S, read_timeout_s=TIMEOUT_S)
        yield AdbShell(device)
    finally:
        device.close()


CLIENTS = {"adb": by_adb, "adb-shell": by_adb_shell}


SENT = bytes(range(256)) * 4096 + b"end"


def asked(client: Client, directory: Path) -> dict[str, object]:
    """Run the same operations on any client; return the result of each."""
    top = "/data/local/tmp/asked"
    sent = directory / "sent"
    sent.write_bytes(SENT)
    sent.chmod(0o640)
    client.push(sent, f"{top}/a/b.bin")
    client.pull(f"{top}/a/b.bin", directory / "back")
    answers: dict[str, object] = {
        "every byte": client.sh(r"printf '\000\001\r\n\r\377\n'"),
        "both streams": sorted(client.sh("echo out; echo err >&2").split()),
        "status": client.sh("sh -c 'exit 7'; echo $?"),
        "hostile words": client.sh(f"printf '%s|' {shlex.join(['a; rm -rf /', '$(id)', ' ', chr(10), '-n'])}"),
        "back": (directory / "back").read_bytes() == sent.read_bytes(),
        "pushed": client.mode_and_size(f"{top}/a/b.bin"),
        "there": client.sh(f"cat {top}/a/b.bin | md5sum"),
        "nothing": client.sh(f"rm -r {top}; ls {top} 2>/dev/null | wc -l"),
    }
    client.sh(f"mkdir -p {top}/d; : >{top}/d/empty; ln -s empty {top}/d/link; printf x >'{top}/d/a b'")
    listed = client.entries(f"{top}/d")
    answers["entries"] = sorted(listed)
    answers["kinds"] = [oct(listed[name][0] >> 12) for name in sorted(listed)]
    client.sh(f"rm -r {top}")
    return answers


EXPECTED: dict[str, object] = {
    "every byte": b"\0\1\r\n\r\xff\n",
    "both streams": [b"err", b"out"],
    "status": b"7\n",
    "hostile words": b"a; rm -rf /|$(id)| |\n|-n|",
    "back": True,
    "pushed": (0o100640, len(SENT)),
    "there": f"{hashlib.md5(SENT).hexdigest()}  -\n".encode(),
    "nothing": b"0\n",
    "entries": [".", "..", "a b", "empty", "link"],
    "kinds": ["0o4", "0o4", "0o10", "0o10", "0o12"],
}


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("features", [None, OLD], ids=["new", "old"])
@pytest.mark.parametrize("model", [PIXEL, EMMC, LOCKED], ids=["pixel", "emmc", "locked"])
def test_every_client_sees_the_same(
    tmp_path: Path, model: Model, features: tuple[str, ...] | None, client: str
) -> None:
    with phone(tmp_path, model=model, features=features) as fake, CLIENTS[client](fake.address) as connected:
        assert asked(connected, tmp_path) == EXPECTED


@pytest.mark.skipif("ANDROSTEP_REAL_ADBD" not in os.environ, reason="no real adbd is named in ANDROSTEP_REAL_ADBD")
@pytest.mark.parametrize("client", CLIENTS)
def test_a_real_adbd_gives_the_same_answers(tmp_path: Path, client: str) -> None:
    with CLIENTS[client](os.environ["ANDROSTEP_REAL_ADBD"]) as connected:
        assert asked(connected, tmp_path) == EXPECTED


# -- shells -----------------------------------------------------------------------------------------------------------


def test_the_new_shell_tells_status_and_streams_apart_and_has_input(tmp_path: Path) -> None:
    with phone(tmp_path) as fake, by_adb(fake.address) as client:
        done = client.run("shell", "cat; echo err >&2; exit 7", input=b"in\0\xff" * 100_000)
        assert (done.returncode, done.stdout, done.stderr) == (7, b"in\0\xff" * 100_000, b"err\n")
        assert client.run("shell", "kill -9 $$").returncode == 128 + 9
        assert client.run("shell", "exit 255").returncode == 255


def test_the_old_shell_tells_neither(tmp_path: Path) -> None:
    with phone(tmp_path, features=OLD) as fake, by_adb(fake.address) as client:
        done = client.run("shell", "echo out; echo err >&2; exit 7")
        assert (done.returncode, sorted(done.stdout.split()), done.stderr) == (0, [b"err", b"out"], b"")


def test_commands_run_at_the_same_time(tmp_path: Path) -> None:
    """The first command ends only after the second has run, over one connection of adb's server."""
    with phone(tmp_path) as fake, by_adb(fake.address) as client:
        os.mkfifo(fake.tmp / "pipe")
        (fake.tmp / "pipe").chmod(0o666)
        waiting = subprocess.Popen(
            ["adb", "-s", fake.address, "shell", "cat /data/local/tmp/pipe"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
        )
        client.run("shell", "echo through >/data/local/tmp/pipe")
        assert waiting.communicate(timeout=TIMEOUT_S)[0] == b"through\n"


def test_what_was_asked_is_kept(tmp_path: Path) -> None:
    with phone(tmp_path) as fake, by_adb(fake.address) as client:
        client.run("shell", "echo a  b")
        client.run("exec-out", "echo 'c")
        assert fake.commands == ["echo a  b", "echo 'c"]


# -- files ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("client", CLIENTS)
def test_20_mb_go_there_and_back(tmp_path: Path, client: str) -> None:
    sent = tmp_path / "sent"
    sent.write_bytes(os.urandom(20 << 20))
    with phone(tmp_path) as fake, CLIENTS[client](fake.address) as connected:
        connected.push(sent, "/data/local/tmp/sent")
        assert (fake.tmp / "sent").read_bytes() == sent.read_bytes()
        connected.pull("/data/local/tmp/sent", tmp_path / "back")
        assert (tmp_path / "back").read_bytes() == sent.read_bytes()


@pytest.mark.parametrize("features", [None, OLD], ids=["new", "old"])
def test_directories_with_hostile_names_go_there_and_back(tmp_path: Path, features: tuple[str, ...] | None) -> None:
    names = ("a b", "$(id)", ";id", "'", '"', "-n", "ä文", "line\nbreak", ",0644", "sub/deep/x", "empty")
    for name in names:
        path = tmp_path / "tree" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("" if name == "empty" else name)
    with phone(tmp_path, features=features) as fake, by_adb(fake.address) as client:
        client.push(tmp_path / "tree", "/data/local/tmp/")
        assert {name: (fake.tmp / "tree" / name).read_text() for name in names} == {
            name: "" if name == "empty" else name for name in names
        }
        client.pull("/data/local/tmp/tree", tmp_path / "back")
        assert (tmp_path / "back" / "line\nbreak").read_text() == "line\nbreak"
        assert sorted(path.name for path in (tmp_path / "back").rglob("*")) == sorted(
            path.name for path in (tmp_path / "tree").rglob("*")
        )


def test_what_is_not_there_or_not_allowed_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with phone(tmp_path) as fake, by_adb(fake.address) as client:
        missing = client.run("pull", "/no/such", tmp_path / "back")
        assert (missing.returncode, b"No such file" in missing.stdout + missing.stderr) == (1, True)
        for target in ("/data/system/file", "/system/bin/file"):
            refused = client.run("push", tmp_path / "file", target)
            assert (refused.returncode, b"Permission denied" in refused.stdout + refused.stderr) == (1, True)
        hidden = client.run("pull", "/data/system/packages.list", tmp_path / "back")
        assert (hidden.returncode, b"Permission denied" in hidden.stdout + hidden.stderr) == (1, True)
        assert not (tmp_path / "back").exists()


def test_no_path_leads_out_of_the_phone(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with phone(tmp_path) as fake, by_adb_shell(fake.address) as client:
        client.push(tmp_path / "file", "/data/local/tmp/../../../../../data/local/tmp/inside")
        assert (fake.tmp / "inside").read_text() == "x"
        assert client.entries("/../..").keys() == client.entries("/").keys()
        assert client.sh(f"ls {shlex.quote(str(tmp_path))} 2>/dev/null") == b""


# -- letting hosts in -------------------------------------------------------------------------------------------------


def test_adb_is_let_in_when_its_key_is_accepted_and_then_known(tmp_path: Path) -> None:
    with phone(tmp_path, auth="accept") as fake:
        for _ in range(2):
            with by_adb(fake.address) as client:
                assert client.run("shell", "echo in").stdout == b"in\n"
                adb("disconnect", fake.address)


def test_adb_shell_is_let_in_by_its_key_alone(tmp_path: Path) -> None:
    signers = []
    for name in ("one", "two"):
        keygen(str(tmp_path / name))
        texts = [(tmp_path / f"{name}{end}").read_text() for end in (".pub", "")]
        signers.append(PythonRSASigner(*texts))
    with phone(tmp_path, auth="accept") as fake:
        with by_adb_shell(fake.address, signers[:1]) as client:
            assert client.sh("echo in") == b"in\n"
        fake.refuse_new_keys()
        with by_adb_shell(fake.address, signers[:1]) as client:
            assert client.sh("echo again") == b"again\n"
        with pytest.raises(DeviceAuthError), by_adb_shell(fake.address):
            pass


def test_who_is_refused_can_do_nothing(tmp_path: Path) -> None:
    with phone(tmp_path, auth="refuse") as fake:
        adb("connect", fake.address)
        done = adb("-s", fake.address, "shell", "echo in")
        assert done.returncode != 0 and done.stdout == b""
        assert fake.commands == []


# -- messages ---------------------------------------------------------------------------------------------------------


def test_messages_have_sums_only_in_the_old_version() -> None:
    message = Message(CNXN, 1, 2, b"\xff\xff")
    head = struct.unpack("<6I", message.packed(VERSION_CHECKSUMS)[:24])
    assert head == (0x4E584E43, 1, 2, 2, 510, 0xB1A7B1BC)
    assert struct.unpack("<6I", message.packed(VERSION)[:24])[4] == 0


@pytest.mark.parametrize("rubbish", [b"GET / HTTP/1.1\r\n\r\n" + bytes(24), bytes(24), b"CNXN" + b"\xff" * 20])
def test_rubbish_ends_the_connection_and_not_the_phone(tmp_path: Path, rubbish: bytes) -> None:
    with phone(tmp_path) as fake:
        host, _, port = fake.address.partition(":")
        with socket.create_connection((host, int(port)), timeout=TIMEOUT_S) as link:
            link.sendall(rubbish)
            with contextlib.suppress(ConnectionResetError):
                assert link.recv(1) == b""
        with by_adb_shell(fake.address) as client:
            assert client.sh("echo in") == b"in\n"


class Host:
    """A host that accepts messages of 4 KiB, and has one stream."""

    def __init__(self, address: str) -> None:
        host, _, port = address.partition(":")
        self._link = socket.create_connection((host, int(port)), timeout=TIMEOUT_S)
        self.sizes: list[int] = []

    def __enter__(self) -> Host:
        self.send(CNXN, VERSION_CHECKSUMS, 4096, b"host::\0")
        assert receive(self._link).payload.startswith(b"device::ro.product.name=bluejay;")
        return self

    def __exit__(self, *_: object) -> None:
        self._link.close()

    def send(self, command: int, first: int, second: int, payload: bytes = b"") -> None:
        """Send a message."""
        self._link.sendall(Message(command, first, second, payload).packed(VERSION_CHECKSUMS))

    def answer(self, service: bytes, asked: bytes = b"") -> bytes:
        """Return everything that a service sends until it or the connection ends."""
        self.send(OPEN, 9, 0, service + b"\0")
        own = receive(self._link).first
        if asked:
            self.send(WRTE, 9, own, asked)
        said = b""
        with contextlib.suppress(Lost):
            while (message := receive(self._link)).command != CLSE:
                if message.command == WRTE:
                    said += message.payload
                    self.sizes.append(len(message.payload))
                    self.send(OKAY, 9, own)
        return said


def test_a_host_that_takes_small_messages_gets_small_ones(tmp_path: Path) -> None:
    with phone(tmp_path) as fake, Host(fake.address) as host:
        assert host.answer(b"exec:head -c 10000 /dev/zero") == bytes(10_000)
        assert max(host.sizes) == 4096


# -- phones -----------------------------------------------------------------------------------------------------------


def become(model: Model) -> str:
    """Return a command line that prints the user id, as root if the phone allows it."""
    return {"c": "su -c 'id -u'", "0": "su 0 id -u", None: "id -u"}[model.su]


@pytest.mark.parametrize("model", [PIXEL, EMMC, LOCKED, ODD], ids=["pixel", "emmc", "locked", "odd"])
def test_users_and_root_are_real(tmp_path: Path, model: Model) -> None:
    with phone(tmp_path, model=model) as fake, by_adb_shell(fake.address) as client:
        assert client.sh("id -u") == f"{model.uid}\n".encode()
        may_write = client.sh("echo x 2>/dev/null >/data/system/x; ls /data/system/x 2>/dev/null")
        assert bool(may_write) == (model.uid == 0)
        assert client.sh(become(model)) == (b"2000\n" if model is LOCKED else b"0\n")
        assert client.sh("getprop ro.product.model") == f"{model.properties['ro.product.model']}\n".encode()
        has = client.sh(f"for t in {' '.join(TOOLS)}; do command -v $t >/dev/null && echo $t; done").decode().split()
        assert has == [tool for tool in TOOLS if tool in model.tools and shutil.which(tool)]


def test_the_wrong_su_says_so(tmp_path: Path) -> None:
    with phone(tmp_path, model=ODD) as fake, by_adb_shell(fake.address) as client:
        assert client.sh("su -c id") == b"su: invalid uid/gid '-c'\n"
    with phone(tmp_path, model=LOCKED) as fake, by_adb_shell(fake.address) as client:
        assert b"not found" in client.sh("su -c id")


def test_our_programs_run_there(tmp_path: Path) -> None:
    with phone(tmp_path) as fake, by_adb_shell(fake.address) as client:
        client.push(program("extmap", "native"), "/data/local/tmp/extmap")
        assert client.sh("chmod 755 /data/local/tmp/extmap; /data/local/tmp/extmap --help").startswith(b"usage: extmap")
        assert (fake.tmp / "extmap").stat().st_uid == 2000


def test_apps_come_and_go(tmp_path: Path) -> None:
    (tmp_path / "app.apk").write_bytes(b"PK")
    with phone(tmp_path) as fake, by_adb_shell(fake.address) as client:
        client.push(tmp_path / "app.apk", "/data/local/tmp/org.example.app.apk")
        assert client.sh("pm install -r /data/local/tmp/org.example.app.apk") == b"Success\n"
        assert client.sh("pm path org.example.app") == b"package:/data/app/org.example.app/base.apk\n"
        assert b"package:org.example.app\n" in client.sh("pm list packages -3")
        assert client.sh("pm uninstall org.example.app") == b"Success\n"
        assert client.sh("pm path org.example.app") == b""


def test_what_apps_do_takes_time_and_is_written_down(tmp_path: Path) -> None:
    with phone(tmp_path) as fake, by_adb_shell(fake.address) as client:
        fake.delay("am", 0.25)
        client.sh("am start -W org.example/.Main; input tap 1 2; uiautomator dump /data/local/tmp/a.xml")
        assert 'text="1 taps"' in (fake.tmp / "a.xml").read_text()
        lines = [action.line for action in fake.actions()]
        assert lines == ["am start -W org.example/.Main", "input tap 1 2", "uiautomator dump /data/local/tmp/a.xml"]
        started = fake.actions()[0]
        assert started.ended_ns - started.began_ns >= 250_000_000


def test_a_socket_of_the_phone_is_reached(tmp_path: Path) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as listening,
        phone(tmp_path) as fake,
        by_adb(fake.address) as client,
    ):
        port = int(client.run("forward", "tcp:0", f"tcp:{listening.getsockname()[1]}").stdout)
        with socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S) as link:
            there, _ = listening.accept()
            with there:
                link.sendall(b"question")
                assert there.recv(100) == b"question"
                there.sendall(b"answer")
                assert link.recv(100) == b"answer"


def test_nothing_is_left_on_this_machine(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    with phone(tmp_path) as fake, by_adb_shell(fake.address) as client:
        pids = [int(client.sh("sleep 1000 >/dev/null 2>&1 </dev/null & echo $!")) for _ in range(2)]
        assert set(pids) <= fake.processes().keys()
        assert str(tmp_path) not in Path("/proc/self/mounts").read_text()
    assert [pid for pid in pids if Path(f"/proc/{pid}/exe").exists()] == []
    for thread in set(threading.enumerate()) - before:
        thread.join(TIMEOUT_S)
        assert not thread.is_alive()


# -- faults -----------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def faulty(tmp_path: Path, **faults: Any) -> Iterator[tuple[FakePhone, Debians]]:
    """Run a phone with faults, and connect adb to it."""
    with phone(tmp_path, faults=Faults(**faults)) as fake, by_adb(fake.address) as client:
        yield fake, client


def sent(tmp_path: Path, nr_bytes: int = 1 << 20) -> Path:
    """Write a file to send."""
    path = tmp_path / "sent"
    path.write_bytes(bytes(nr_bytes))
    return path


def test_a_cut_push_fails_once(tmp_path: Path) -> None:
    with faulty(tmp_path, cut_push_after=100_000) as (fake, client):
        assert client.run("push", sent(tmp_path), "/data/local/tmp/sent").returncode == 1
        while (fake.tmp / "sent").exists():  # the client does not wait for the removal
            time.sleep(0.01)
        with by_adb_shell(fake.address) as second:
            second.push(tmp_path / "sent", "/data/local/tmp/sent")
        assert (fake.tmp / "sent").stat().st_size == 1 << 20


def test_a_cut_pull_sends_exactly_so_much(tmp_path: Path) -> None:
    with phone(tmp_path, faults=Faults(cut_pull_after=100_000)) as fake, Host(fake.address) as host:
        (fake.tmp / "there").write_bytes(os.urandom(200_000))
        (fake.tmp / "there").chmod(0o644)
        path = b"/data/local/tmp/there"
        stream = host.answer(b"sync:", b"RECV" + struct.pack("<I", len(path)) + path)
        assert (stream[:4], stream[8 : 8 + (64 << 10)]) == (b"DATA", (fake.tmp / "there").read_bytes()[: 64 << 10])
        assert len(stream) == 2 * 8 + 100_000


def test_a_cut_command_has_written_exactly_so_much(tmp_path: Path) -> None:
    with faulty(tmp_path, cut_shell_after=70_000) as (_, client):
        done = client.run("exec-out", "head -c 200000 /dev/zero")
        assert len(done.stdout) == 70_000


@pytest.mark.parametrize("way", ["push", "pull", "shell"])
def test_a_rebooting_phone_is_gone(tmp_path: Path, way: str) -> None:
    with faulty(tmp_path, **{f"reboot_{way}_after": 50_000}) as (fake, client):
        (fake.tmp / "there").write_bytes(bytes(200_000))
        (fake.tmp / "there").chmod(0o644)
        client.run("shell", "sleep 1000 >/dev/null 2>&1 </dev/null &")
        words: tuple[str | Path, ...] = {
            "push": ("push", sent(tmp_path), "/data/local/tmp/sent"),
            "pull": ("pull", "/data/local/tmp/there", tmp_path / "back"),
            "shell": ("shell", "head -c 200000 /dev/zero"),
        }[way]
        done = client.run(*words)
        assert done.returncode != 0 or len(done.stdout) == 50_000  # `adb shell` has status 0 in this case
        host, _, port = fake.address.partition(":")
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((host, int(port)), timeout=TIMEOUT_S)


def test_one_byte_arrives_as_another(tmp_path: Path) -> None:
    with faulty(tmp_path, corrupt_push_at=70_000) as (fake, client):
        client.push(sent(tmp_path), "/data/local/tmp/sent")
        arrived = (fake.tmp / "sent").read_bytes()
        assert [at for at, byte in enumerate(arrived) if byte] == [70_000]
    with faulty(tmp_path, corrupt_pull_at=999) as (fake, client):
        shutil.copyfile(tmp_path / "sent", fake.tmp / "there")
        client.run("pull", "/data/local/tmp/there", tmp_path / "back")
        assert [at for at, byte in enumerate((tmp_path / "back").read_bytes()) if byte] == [999]


def test_a_full_phone_says_so_and_keeps_nothing(tmp_path: Path) -> None:
    with faulty(tmp_path, disk_bytes=1 << 20) as (fake, client):
        done = client.run("push", sent(tmp_path, 2 << 20), "/data/local/tmp/sent")
        assert (done.returncode, b"No space left on device" in done.stdout + done.stderr) == (1, True)
        assert list(fake.tmp.iterdir()) == []
        assert b"No space left" in client.run("shell", "head -c 2000000 /dev/zero >/data/local/tmp/x").stderr


def test_without_tracefs_not_even_root_brings_it_back(tmp_path: Path) -> None:
    with faulty(tmp_path, no_tracefs=True) as (_, client):
        assert client.run("shell", "ls -d /sys/kernel/tracing").returncode != 0
        mount = "mkdir /data/system/t; mount -t tracefs nodev /data/system/t"
        assert client.run("shell", f"su -c '{mount}'").returncode != 0
    with faulty(tmp_path) as (_, client):
        assert client.run("shell", "su -c 'ls -d /sys/kernel/tracing/events/block'").returncode == 0
        assert client.run("shell", "ls /sys/kernel/tracing/events").returncode != 0


def test_a_program_is_killed_and_its_shell_lives_on(tmp_path: Path) -> None:
    with faulty(tmp_path, kill="sleep", kill_after_output=3) as (_, client):
        done = client.run("shell", "echo abc; sleep 1000; echo $?")
        assert done.stdout == b"abc\n137\n"


def test_a_silent_phone_answers_nothing(tmp_path: Path) -> None:
    with phone(tmp_path, faults=Faults(silent=True)) as fake:
        host, _, port = fake.address.partition(":")
        device = AdbDeviceTcp(host, int(port), default_transport_timeout_s=0.2)
        with contextlib.closing(device), pytest.raises((AdbConnectionError, Exception), match=r"(?i)time|read"):
            device.connect(read_timeout_s=0.2, auth_timeout_s=0.2)


def test_a_slow_link_is_slow(tmp_path: Path) -> None:
    with faulty(tmp_path, bytes_per_s=1e6) as (_, client):
        began = time.monotonic()
        client.push(sent(tmp_path, 300_000), "/data/local/tmp/sent")
        assert time.monotonic() - began > 0.29


def test_tools_are_missing_that_should_be(tmp_path: Path) -> None:
    with faulty(tmp_path, missing_tools=("sha256sum", "getprop")) as (_, client):
        assert client.run("shell", "command -v sha256sum getprop").returncode != 0
        assert client.run("shell", "command -v md5sum").returncode == 0
