"""Forward a local port to a service of the device, such as a browser's debugging socket."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

from androstep_analysis.device.transport import DeviceError, adb

_SERVICE = re.compile(r"tcp:[0-9]{1,5}|localabstract:[A-Za-z0-9_.:-]{1,100}", re.ASCII)
_ADB_S = 20.0


@contextlib.contextmanager
def forwarded(name: str, service: str) -> Iterator[tuple[str, int]]:
    """Yield a local address and port that is forwarded to `service` on the device until the block ends.

    `name` is the device's address, as for `connect`. `service` is named as in adb: ``tcp:PORT`` or
    ``localabstract:NAME``. Raises `DeviceError` for devices that are not reached through the program adb, because the
    other transports cannot forward.
    """
    if _SERVICE.fullmatch(service) is None:
        raise DeviceError(f"{service!r} is not a service; give tcp:PORT or localabstract:NAME")
    kind, _, serial = name.partition(":")
    if name == "local":
        if not service.startswith("tcp:"):
            raise DeviceError("local: only services tcp:PORT can be reached; start the browser with a port")
        yield "127.0.0.1", int(service.removeprefix("tcp:"))
        return
    if kind != "adb":
        raise DeviceError(
            f"{name}: a browser is reached through the program adb only; after `adb connect`, name the device "
            "adb:SERIAL"
        )
    which = ["-s", serial] if serial else []
    port = _adb(name, [*which, "forward", "tcp:0", service]).strip()
    if not (port.isascii() and port.isdigit()):
        raise DeviceError(f"{name}: adb did not print the port that it forwards; update adb")
    try:
        yield "127.0.0.1", int(port)
    finally:
        with contextlib.suppress(DeviceError):  # a disconnected device has dropped the forwarding
            _adb(name, [*which, "forward", "--remove", f"tcp:{port}"])


def _adb(name: str, words: list[str]) -> str:
    done = adb.called(*words, timeout_s=_ADB_S)
    if done is None:
        raise DeviceError(f"{name}: adb did not answer in {_ADB_S:.0f} s; check the cable")
    if done.returncode:
        error = done.stderr.decode("utf-8", "replace").strip()
        raise DeviceError(f"{name}: adb forward failed ({error}); see `adb devices`")
    return done.stdout.decode("utf-8", "replace")
