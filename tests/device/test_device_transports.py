"""Every transport gives the same results: exit status, bytes, words, files, long programs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from adbd import EMMC, LOCKED, ODD, PIXEL, Faults, phone
from support.device_faults import fill
from support.devices import WAYS, adb_connected, device, home

from androstep_analysis.device import Device, DeviceError, LinkLost, connect, reachable
from androstep_analysis.device.session.job import KILLED, Job
from androstep_analysis.device.transport import MOST_BYTES, quoted
from androstep_analysis.device.transport.adb_protocol import AdbProtocol
from androstep_analysis.device.transport.frame import framed
from androstep_analysis.device.transport.local import Local

HOSTILE = (
    *(
        "a; rm -rf /",
        "$(reboot)",
        "`reboot`",
        "a\nb",
        "\n",
        "'",
        '"',
        "''\"\"",
        "-n",
        "--",
        "-rf",
        "*",
        "~",
        "\\",
        "\\n",
    ),
    *(
        "",
        " ",
        "  a  ",
        "\t",
        "$HOME",
        "${IFS}",
        "&",
        "|",
        ">x",
        "#c",
        "!!",
        "%s",
        "ünïcødé",
        "文件",
        "\u202e",
        "a\r\nb",
    ),
)


@pytest.fixture(scope="module", params=WAYS)
def connected(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Device]:
    with device(request.param, tmp_path_factory.mktemp("phone")) as (found, _):
        yield found


# -- commands ---------------------------------------------------------------------------------------------------------


def test_the_exit_status_is_that_of_the_program(connected: Device) -> None:
    for status in (0, 1, 7, 126, 127, 255):
        assert connected.sh(["sh", "-c", f"exit {status}"]).status == status


def test_a_program_that_a_signal_ended_has_the_status_of_a_shell(connected: Device) -> None:
    assert connected.sh(["sh", "-c", "kill -TERM $$"]).status == 128 + signal.SIGTERM


def test_a_program_that_is_not_there_is_an_answer(connected: Device) -> None:
    answer = connected.sh(["no-such-program-here"])
    assert answer.status == 127
    assert "not found" in answer.complaint


def test_every_byte_of_the_output_arrives(connected: Device, tmp_path: Path) -> None:
    everything = bytes(range(256)) + b"\r\n\n\r\0" + b"\n"
    (tmp_path / "bytes").write_bytes(everything)
    connected.push(tmp_path / "bytes", f"{connected.directory}/bytes")
    answer = connected.sh(["cat", f"{connected.directory}/bytes"])
    assert (answer.status, answer.output, answer.errors) == (0, everything, b"")


def test_large_output_arrives_whole(connected: Device) -> None:
    answer = connected.sh(["head", "-c", "8000000", "/dev/zero"])
    assert (answer.status, answer.output) == (0, bytes(8_000_000))


def test_errors_are_told_from_the_output(connected: Device) -> None:
    answer = connected.script("echo out; echo err >&2; echo more; printf last >&2; exit 3")
    assert (answer.status, answer.output, answer.errors) == (3, b"out\nmore\n", b"err\nlast")


def test_of_many_errors_the_last_are_kept(connected: Device) -> None:
    answer = connected.script("head -c 300000 /dev/zero | tr '\\0' e >&2; echo out; echo the end >&2")
    assert answer.output == b"out\n"
    assert answer.errors.endswith(b"e" * 1000 + b"the end\n")


def test_a_program_has_no_input(connected: Device) -> None:
    assert connected.sh(["cat"]).output == b""


@pytest.mark.parametrize("root", [False, True])
def test_a_word_is_a_word(connected: Device, root: bool) -> None:
    shell = 'id -u >&2; printf "%s|" "$#" "$@"; exit 9'
    answer = connected.sh(["sh", "-c", shell, "sh", *HOSTILE, "x"], root=root)
    assert answer.output.decode() == "".join(f"{word}|" for word in (len(HOSTILE) + 1, *HOSTILE, "x"))
    assert answer.status == 9
    assert answer.errors == b"0\n" or not root


def test_a_word_of_100_kb_arrives_and_a_longer_one_is_refused(connected: Device) -> None:
    word = "xy z'" + "w" * 100_000
    assert connected.sh(["printf", "%s", word]).output.decode() == word
    with pytest.raises(DeviceError, match="too long"):
        connected.sh(["printf", "%s", "w" * MOST_BYTES])


def test_nothing_ends_the_frame_around_a_command(connected: Device) -> None:
    """Neither a comment, nor `exit`, nor the text of another command's answer."""
    old = framed("true")
    assert connected.script("echo a # '").output == b"a\n"
    assert connected.script(f"printf %s {old.token}b{old.token}mx0{old.token}e; exit 4").status == 4
    assert connected.script("").status == 0


def test_a_command_that_does_not_end_is_a_lost_link_and_the_next_is_answered(connected: Device) -> None:
    with pytest.raises(LinkLost):
        connected.sh(["sleep", "100"], timeout_s=1)
    assert connected.sh(["echo", "there"], timeout_s=60).output == b"there\n"


def test_a_command_that_kills_its_shell_is_broken_off(connected: Device) -> None:
    with pytest.raises(LinkLost, match="broken off"):
        connected.script("kill -9 $$")


# -- long programs ----------------------------------------------------------------------------------------------------


def test_lines_come_while_a_program_runs_and_its_status_at_the_end(connected: Device) -> None:
    """The program waits for a file that is made when its first line has arrived."""
    go, lines = f"{connected.directory}/go", []
    loop = 'echo one >&2; while [ ! -e "$0" ]; do sleep 0.1; done; printf "two\\r\\nthree" >&2; exit 5'

    def line(text: str) -> None:
        lines.append(text)
        connected.script(f": >{quoted([go])}")

    assert connected.stream(["sh", "-c", loop, go], line) == 5
    assert lines == ["one", "two", "three"]


@pytest.mark.prove
@pytest.mark.parametrize("root", [False, True])
def test_what_is_raised_ends_the_program_and_waits_for_it(connected: Device, root: bool) -> None:
    ended = f"{connected.directory}/ended"
    loop = 'trap "echo ended >\\"$0\\"; exit" TERM; echo begun >&2; while :; do sleep 0.1; done'

    def interrupt(_: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        connected.stream(["sh", "-c", loop, ended], interrupt, root=root)
    assert connected.sh(["cat", ended], root=root).output == b"ended\n"
    connected.sh(["rm", "-f", ended], root=root)


def test_a_program_that_cannot_be_run_says_so(connected: Device) -> None:
    said: list[str] = []
    assert connected.stream(["no-such-program-here"], said.append) == 127
    assert "not found" in "".join(said)


def test_a_killed_program_has_its_status(connected: Device) -> None:
    assert connected.stream(["sh", "-c", "kill -9 $$"], print) == 128 + signal.SIGKILL


@pytest.mark.prove
def test_a_signal_sent_at_once_arrives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy device, simulated by a sleep, the program's shell may begin after the caller wants it to end."""
    slow = tmp_path / "sh"
    slow.write_text('#!/bin/sh\nsleep 1\nexec /bin/sh "$@"\n')
    slow.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with connect("local") as found:
        job = found.start(["sleep", "100"])
        found.end(job, signals=["TERM"])
        assert job.status == 128 + signal.SIGTERM


@pytest.mark.prove
def test_a_signal_whose_answer_is_lost_is_sent_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loop = 'trap "echo came" TERM; echo begun >&2; until [ -e "$0" ]; do sleep 0.1; done'
    with connect("local") as found:
        job = found.start(["sh", "-c", loop, str(tmp_path / "go")])
        while "begun" not in job.errors():
            pass
        with monkeypatch.context() as patch:
            run, lost = Local.run, []

            def losing(link: Local, line: str, *, timeout_s: float) -> bytes:
                answer = run(link, line, timeout_s=timeout_s)
                if not lost:
                    lost.append(line)
                    raise LinkLost("cut")
                return answer

            patch.setattr(Local, "run", losing)
            job.end()
        (tmp_path / "go").touch()
        assert (job.wait(), job.output()) == (0, "came\n")


def test_a_program_of_which_nothing_is_known_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its starter was killed before it began, and left its directory to `recover`."""
    monkeypatch.setattr("androstep_analysis.device.session.job._STATUS_S", 0)
    with connect("local") as found:
        assert Job(found, found.new_directory(found.directory), root=False).wait() == KILLED


def test_where_nothing_can_be_written_no_program_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("androstep_analysis.device.session.job._STATUS_S", 0)
    with home(tmp_path), phone(tmp_path, faults=Faults(disk_bytes=1 << 20)) as fake, connect(fake.address) as found:
        place = found.directory
        fill(fake)
        with pytest.raises(DeviceError, match=f"nothing can be written to {place}/job-1; make room"):
            found.start(["true"])


def test_a_program_whose_directory_went_is_an_error(connected: Device) -> None:
    job = connected.start(["sleep", "100"])
    pid = job.pid()
    connected.sh(["rm", "-r", job.directory])
    with pytest.raises(DeviceError, match="restarted"):
        job.wait()
    connected.forget(job)
    connected.sh(["kill", str(pid)])


# -- files ------------------------------------------------------------------------------------------------------------


@pytest.mark.prove
@pytest.mark.parametrize("size", [0, 4095, 1 << 20, (1 << 20) + 1, 5_000_000])
def test_a_file_goes_there_and_comes_back(connected: Device, tmp_path: Path, size: int) -> None:
    content = os.urandom(size)
    (tmp_path / "there").write_bytes(content)
    connected.push(tmp_path / "there", f"{connected.directory}/file")
    assert connected.sh(["wc", "-c", f"{connected.directory}/file"]).text.split()[0] == str(size)
    connected.pull(f"{connected.directory}/file", tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == content
    assert sorted(path.name for path in tmp_path.iterdir()) == ["back", "there"]


def test_a_name_is_a_name(connected: Device, tmp_path: Path) -> None:
    for name in ("a b", "a\nb", "-rf", "'", '"$(reboot)"', "ünïcødé", "a; rm -rf *", "%s", "a,b", "\\x"):
        content = name.encode()
        (tmp_path / name).write_bytes(content)
        connected.push(tmp_path / name, f"{connected.directory}/{name}", mode=0o751)
        assert f"{name}\n" in connected.sh(["ls", connected.directory]).text.replace("./", "")
        connected.pull(f"{connected.directory}/{name}", tmp_path / "back")
        assert (tmp_path / "back").read_bytes() == content
        assert connected.sh(["ls", "-l", f"{connected.directory}/{name}"]).text.startswith("-rwxr-x--x")


@pytest.mark.root
def test_a_file_of_root_is_copied_by_root(connected: Device, tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"content")
    target = f"{connected.directory}/secret"
    connected.push(tmp_path / "secret", target, mode=0o600, root=True)
    connected.pull(target, tmp_path / "back", root=True)
    assert (tmp_path / "back").read_bytes() == b"content"


def test_what_is_no_file_cannot_be_pulled(connected: Device, tmp_path: Path) -> None:
    for path in ("/no/such/file", "/dev", "/dev/null"):
        with pytest.raises(DeviceError, match="no such file"):
            connected.pull(path, tmp_path / "back")
        assert list(tmp_path.iterdir()) == [], path


def test_where_nothing_can_be_written_nothing_is_pushed(connected: Device, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"content")
    with pytest.raises(DeviceError, match="/proc/file"):
        connected.push(tmp_path / "file", "/proc/file")
    with pytest.raises(DeviceError, match="no such file"):
        connected.push(tmp_path / "missing", f"{connected.directory}/missing")
    assert "pushed" not in connected.sh(["ls", connected.directory]).text


# -- the way there ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS)
def test_closing_leaves_nothing_behind(way: str, tmp_path: Path) -> None:
    with device(way, tmp_path) as (found, fake):
        (tmp_path / "file").write_bytes(b"content")
        found.push(tmp_path / "file", f"{found.directory}/file")
        found.start(["sleep", "100"])
        pid = found.start(["sleep", "100"], root=os.geteuid() == 0).pid()
        place = found.directory
        found.close()
        assert not Path(f"/proc/{pid}").exists()
        if fake is None:
            assert not Path(place).exists()
        else:
            assert list(fake.tmp.iterdir()) == []
            assert "sleep" not in fake.processes().values()


@pytest.mark.root
@pytest.mark.parametrize("way", ["tcp", "adb"])
def test_a_lost_link_is_told_at_once_and_taken_up_again(way: str, tmp_path: Path) -> None:
    with device(way, tmp_path, patience_s=60) as (found, fake):
        assert fake is not None
        fake.disconnect()
        assert found.patiently(lambda: found.sh(["echo", "there"])).output == b"there\n"


@pytest.mark.root
def test_a_program_goes_on_while_the_link_is_lost(tmp_path: Path) -> None:
    with device("tcp", tmp_path) as (found, fake):
        assert fake is not None
        lines: list[str] = []

        def line(text: str) -> None:
            lines.append(text)
            fake.disconnect()

        loop = "for i in 1 2 3 4 5; do echo $i >&2; sleep 0.2; done; exit 6"
        assert found.stream(["sh", "-c", loop], line, root=True) == 6
        assert lines == ["1", "2", "3", "4", "5"]


def test_a_device_that_is_silent_is_lost_in_the_time_given(tmp_path: Path) -> None:
    with home(tmp_path), phone(tmp_path) as fake, connect(fake.address, patience_s=0) as found:
        fake.faults.silent = True
        with pytest.raises(LinkLost, match="no answer"):
            found.sh(["true"], timeout_s=1)
        fake.faults.silent = False


def test_a_device_that_is_gone_is_one_sentence(tmp_path: Path) -> None:
    with home(tmp_path), phone(tmp_path) as fake, connect(fake.address, patience_s=0) as found:
        fake.reboot()
        with pytest.raises(LinkLost, match=r"127\.0\.0\.1"):
            found.sh(["true"])
        with pytest.raises(LinkLost, match="no device listens"):
            found.sh(["true"])


def test_a_key_is_made_once_and_only_its_owner_reads_it(tmp_path: Path) -> None:
    with home(tmp_path), phone(tmp_path, auth="accept") as fake:
        for _ in range(2):
            with connect(fake.address) as found:
                assert found.sh(["echo", "in"]).output == b"in\n"
        key = tmp_path / ".android" / "adbkey"
        assert key.stat().st_mode & 0o777 == 0o600
        assert sorted(path.name for path in key.parent.iterdir()) == ["adbkey", "adbkey.pub"]
        before = key.read_bytes()
        connect(fake.address).close()
        assert key.read_bytes() == before


def test_a_damaged_key_is_one_sentence(tmp_path: Path) -> None:
    with home(tmp_path), phone(tmp_path, auth="accept") as fake:
        (tmp_path / ".android").mkdir()
        for name in ("adbkey", "adbkey.pub"):
            (tmp_path / ".android" / name).write_text("no key\n")
        with pytest.raises(DeviceError, match="cannot be used as adb's key"):
            connect(fake.address)


@pytest.mark.parametrize("where", ["", "phone", ":5555", "phone:", "phone:0", "phone:99999", "phone:٣", "local:x:y"])
def test_what_is_no_device_is_one_sentence(where: str, tmp_path: Path) -> None:
    with home(tmp_path), pytest.raises(DeviceError):
        connect(where, patience_s=0)


def test_without_libusb_other_devices_are_there(tmp_path: Path) -> None:
    """adb-shell loads libusb when it is imported, so this runs in a process in which it cannot be loaded."""
    code = (
        "import ctypes\n"
        "load = ctypes.CDLL.__init__\n"
        "def refused(self, name, *words, **asked):\n"
        "    if 'usb' in str(name): raise OSError('no such library')\n"
        "    load(self, name, *words, **asked)\n"
        "ctypes.CDLL.__init__ = refused\n"
        "from androstep_analysis import device\n"
        "print(device.reachable())\n"
        "try: device.connect('usb')\n"
        "except device.DeviceError as error: print(error)\n"
    )
    with home(tmp_path):
        said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=True)
    assert said.stdout.splitlines()[0] == "['local']"
    assert "install libusb" in said.stdout


def test_the_only_device_is_taken_and_of_two_none(tmp_path: Path) -> None:
    with home(tmp_path) as patch, phone(tmp_path) as fake, phone(tmp_path) as other:
        patch.setattr("androstep_analysis.device.transport.usb.serials", list)
        with pytest.raises(DeviceError, match="no device"):
            connect()
        with adb_connected(fake.address):
            assert reachable() == ["local", f"adb:{fake.address}"]
            with connect() as found:
                assert found.name == f"adb:{fake.address}"
            with adb_connected(other.address), pytest.raises(DeviceError, match="several devices"):
                connect()
        patch.setenv("ANDROSTEP_DEVICE", "local")
        with connect() as found:
            assert found.name == "local"


def test_without_root_a_sentence_says_so(tmp_path: Path) -> None:
    with home(tmp_path), phone(tmp_path, model=LOCKED) as fake, connect(fake.address) as found:
        assert not found.has_root
        with pytest.raises(DeviceError, match="no root"):
            found.sh(["id"], root=True)


def test_a_link_lost_while_su_is_asked_is_no_refusal(tmp_path: Path) -> None:
    with home(tmp_path), phone(tmp_path) as fake, connect(fake.address, patience_s=0) as found:
        with pytest.MonkeyPatch.context() as patch, pytest.raises(LinkLost):
            patch.setattr(AdbProtocol, "run", _lost)
            assert not found.has_root
        assert found.has_root


def _lost(*_: object, **__: object) -> bytes:
    raise LinkLost("cut")


@pytest.mark.parametrize("status", [b"", b"one", b"-1", b"9" * 5000, "²".encode()])
def test_an_answer_whose_status_is_no_number_is_none(status: bytes) -> None:
    frame = framed("true")
    token = frame.token.encode()
    assert frame.answer(token + b"boutput" + token + b"merrorsx" + status + token + b"e") is None


def test_su_is_asked_as_the_device_wants_it(tmp_path: Path) -> None:
    for model in (PIXEL, EMMC, ODD):
        with home(tmp_path), phone(tmp_path, model=model) as fake, connect(fake.address) as found:
            assert found.sh(["id", "-u"], root=True).output == b"0\n"


def test_large_packets_pass_a_slow_link_whole(tmp_path: Path) -> None:
    """adb-shell reports a partial write as complete."""
    content = os.urandom(3_000_000)
    (tmp_path / "file").write_bytes(content)
    with home(tmp_path), phone(tmp_path, faults=Faults(bytes_per_s=3e6)) as fake, connect(fake.address) as found:
        found.push(tmp_path / "file", f"{found.directory}/file")
        found.pull(f"{found.directory}/file", tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == content
