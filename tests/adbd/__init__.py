"""A fake phone for tests: an adbd that speaks the real protocol, in an Android-like environment on the host's kernel.

Use ``with phone(tmp_path) as fake: connect(fake.address)``. It was written from the protocol's description. The same
adbd runs in guests (`adbd.machine`), where everything is the device's own.
"""

from adbd.device import FakePhone, phone
from adbd.faults import Faults
from adbd.models import EMMC, LOCKED, ODD, PIXEL, Model, Mount, Package

__all__ = ["EMMC", "LOCKED", "ODD", "PIXEL", "FakePhone", "Faults", "Model", "Mount", "Package", "phone"]
