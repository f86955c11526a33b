"""Recognition of recordings from emulated devices. Their times are those of the host machine."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

MARK: Final = " (emulated)"

_SIGNS: Final[Mapping[str, str]] = {
    "device": r"emulator|sdk_gphone|generic|goldfish|ranchu|cuttlefish|vsoc|qemu|\bkvm\b|^vm$|guest|waydroid|^loop",
    "soc": r"goldfish|ranchu|cutf|vsoc|qemu",
    "build_fingerprint": r"^generic|sdk_gphone|emulator|vsoc|cuttlefish|/cf_|waydroid",
    "kernel": r"\bgoldfish\b|\bqemu\b|microsoft-standard-wsl",
    "storage_model": r"loop|qemu|virtio|virtual|vmware|vbox|null_blk|scsi_debug|ram disk|zram",
}
"""Patterns in facts that show emulators, guests of a virtual machine, and virtual devices of the kernel."""


def is_emulated(facts: Mapping[str, Any]) -> bool:
    """Return whether a fact shows an emulated device. Without such a fact, a device counts as real."""
    return any(re.search(sign, str(facts.get(name) or ""), re.IGNORECASE) for name, sign in _SIGNS.items())
