"""Start an app again and again, each time without a process and, where permitted, without cached pages."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from typing import Final

from androstep_analysis.common.errors import InputError, printable
from androstep_analysis.device.session import Session
from androstep_analysis.device.transport import DeviceError, quoted
from androstep_analysis.device.transport.notices import notify
from androstep_analysis.device.workloads import activity
from androstep_analysis.device.workloads.log import Log, Ran

CACHES_KEPT: Final = "caches not dropped"
"""Begin of the detail of a start (table `steps`) before which the page cache could not be dropped."""

MOST: Final = 1000
"""The largest number of starts."""

_APP: Final = re.compile(r"([A-Za-z]\w*(?:\.\w+)+)(?:/\.?[A-Za-z][\w.$]*)?", re.ASCII)

_DROP_S: Final = 120.0

_DROP_AS_ROOT: Final = "sync && echo 3 >/proc/sys/vm/drop_caches"

_DROP: Final = """
setprop perf.drop_caches 3 || exit 1
n=0; until [ "$(getprop perf.drop_caches)" = 0 ] || [ $n -ge 300 ]; do sleep 0.1; n=$((n + 1)); done
[ "$(getprop perf.drop_caches)" = 0 ] || { echo "init did not react to perf.drop_caches" >&2; exit 1; }
"""
"""init drops the caches for adb's shell since Android 12, and then resets the property (system/core, init.rc)."""


@dataclass(frozen=True)
class ColdStart:
    """Starts of `app`, a package or ``package/.Activity``.

    Before each of the `repeats` starts, the app is stopped and the caches are dropped, if the device permits it. After
    each one, the app runs on for `settle_s`.
    """

    app: str
    repeats: int = 10
    settle_s: float = 1.0

    def __post_init__(self) -> None:
        if _APP.fullmatch(self.app) is None:
            shown = printable(repr(self.app))
            raise InputError(f"{shown}: not a package or activity, such as org.example.app or org.example.app/.Main")
        if not 0 < self.repeats <= MOST:
            raise InputError(f"{self.repeats} starts: give a number from 1 to {MOST}")

    @property
    def name(self) -> str:
        """Its name in results."""
        return f"coldstart {self.app}"

    @property
    def package(self) -> str:
        """The package of the app."""
        return self.app.partition("/")[0]

    def check(self, device: Session) -> None:
        """Raise `DeviceError` unless the device is an Android device with this package."""
        if not device.holds("command -v am && command -v pm"):
            raise DeviceError(f"{device.name}: no Android device: it has no `am` and `pm`; name a phone with --on")
        if not device.query(f"pm path {quoted([self.package])}").output.startswith(b"package:"):
            advice = "install it, or look for its name with `adb shell pm list packages`"
            raise DeviceError(f"{device.name}: the package {self.package} is not installed; {advice}")

    def run(self, device: Session) -> Ran:
        """Start the app `repeats` times. A failed start is logged as failed; raise `DeviceError` if all of them are."""
        log = Log(device, self.name)
        kept = ""
        try:
            for log.repeat in range(self.repeats):
                self._stop(device)
                kept = kept or _drop_caches(device)
                if log.repeat == 0 and kept:
                    notify(f"{device.name}: {kept}: starts read from storage only what is not in memory")
                activity.start(log, "start", self.app, self._intent(), is_cold=True, note=kept)
                time.sleep(self.settle_s)
        finally:
            self._stop(device)
        ran = log.ran()
        if (ran.steps["outcome"] == "failed").all():
            said = " ".join(str(ran.steps["detail"][0]).split())
            raise DeviceError(f"{device.name}: {self.app} cannot be started: {said or 'am gave no reason'}")
        return ran

    def _intent(self) -> list[str]:
        launcher = ["-a", "android.intent.action.MAIN", "-c", "android.intent.category.LAUNCHER"]
        return [*launcher, *(["-n", self.app] if "/" in self.app else ["-p", self.app])]

    def _stop(self, device: Session) -> None:
        device.ensure(f"am force-stop {quoted([self.package])}", f"stop {self.package}")


def _drop_caches(device: Session) -> str:
    """Write dirty pages and drop the page cache; return why that is not possible, or an empty text."""
    answer = device.query(_DROP_AS_ROOT if device.has_root else _DROP, root=device.has_root, timeout_s=_DROP_S)
    if answer.status == 0:
        return ""
    return f"{CACHES_KEPT}: {' '.join(answer.complaint.split())[:200] or 'not permitted'}"
