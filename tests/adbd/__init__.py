"""A fake phone for tests: an adbd that speaks the real protocol, and an Android around it on this host's kernel.

``with phone(tmp_path) as fake: connect(fake.address)``. It is written from the protocol's description.
The same adbd runs in guests (`adbd.machine`), where everything is the device's own.
"""

from adbd.device import FakePhone, phone
from adbd.faults import Faults
from adbd.models import EMMC, LOCKED, ODD, PIXEL, Model, Mount, Package

__all__ = ["EMMC", "LOCKED", "ODD", "PIXEL", "FakePhone", "Faults", "Model", "Mount", "Package", "phone"]
