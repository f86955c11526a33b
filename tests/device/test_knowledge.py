"""Predictions of what a kernel will report about files, owners and direct I/O."""

from __future__ import annotations

import pytest
from support.tree import ROOT

from androstep_analysis.device.record import knowledge

EVENTS = ["writeback/writeback_dirty_folio", "iomap/iomap_dio_rw_begin", "f2fs/f2fs_direct_IO_enter"]
OF_F2FS = ["f2fs/f2fs_lookup_end", "f2fs/f2fs_datawrite_start"]


def named_findings(**answers: list[str]) -> dict[str, tuple[bool, str, str]]:
    """Return for names, owners and direct I/O: whether it will be known, by what, and why not."""
    known = {
        "mounted": ["/sys/kernel/tracing"],
        "release": ["6.18.0"],
        "fanotify": ["yes"],
        "probes": [],
        "telling": EVENTS,
        "filesystems": ["ext4 /data", "vfat /boot"],
    }
    findings = list(knowledge.findings(known | answers))
    return {
        word: (finding.ok, finding.what, finding.advice)
        for word, finding in zip(("names", "owners", "direct"), findings, strict=True)
    }


def test_a_kernel_without_kprobes_tells_names_by_fanotify() -> None:
    answers = named_findings()
    assert answers["names"] == (True, "known: names of files deleted during the recording (by fanotify)", "")
    assert [ok for ok, _, _ in answers.values()] == [True, True, True]
    assert named_findings(probes=["/sys/kernel/tracing"])["names"][1].endswith("(by kprobes and fanotify)")


@pytest.mark.parametrize(
    "answers",
    [{"release": ["5.10.107-android13-4"]}, {"release": ["5.16.0"]}, {"fanotify": []}, {"release": []}],
)
def test_why_names_will_not_be_known(answers: dict[str, list[str]]) -> None:
    ok, what, why = named_findings(**answers)["names"]
    assert not ok and what == "not known: names of files deleted during the recording"
    assert "CONFIG_FANOTIFY and Linux 5.17" in why and "CONFIG_KPROBE_EVENTS" in why
    assert why.endswith(
        f"this is {answers.get('release', ['6.18.0'])[0] if answers.get('release') != [] else 'unknown'}"
    )


def test_f2fs_tells_names_itself() -> None:
    old = {"release": ["5.10.1"], "filesystems": ["f2fs /data"]}
    assert named_findings(**old, telling=EVENTS + OF_F2FS)["names"][1].endswith("(by F2FS's events)")
    assert not named_findings(**old)["names"][0]


def test_direct_io_needs_events_of_the_filesystem_or_kprobes() -> None:
    assert named_findings(filesystems=["f2fs /data"])["direct"][0]
    ok, _, why = named_findings(filesystems=["exfat /data", "ext4 /"])["direct"]
    assert not ok and why.startswith("exfat has no events of it here")
    assert named_findings(filesystems=["exfat /data"], probes=["/sys/kernel/tracing"])["direct"][0]
    assert not named_findings(telling=["writeback/writeback_dirty_folio"])["direct"][0]


def test_owners_need_events_of_dirty_pages() -> None:
    assert not named_findings(telling=[])["owners"][0]


def test_what_nobody_has_looked_at_is_not_said_to_be_missing() -> None:
    """iotrace mounts tracefs for itself, and then finds what was not visible before."""
    (finding,) = knowledge.findings(
        {"mounted": [], "release": ["6.12.1"], "fanotify": ["yes"], "probes": [], "telling": [], "filesystems": []}
    )
    assert not finding.ok and "cannot check" in finding.what and "mount -t tracefs" in finding.advice


def test_the_flags_are_those_of_the_kernel_that_iotrace_needs() -> None:
    assert "Linux 5.17" in (ROOT / "probes/iotrace/names.c").read_text()
    presets = (ROOT / "probes/iotrace/presets.c").read_text()
    for event in (*EVENTS, *OF_F2FS):
        assert event.partition("/")[2] in presets
