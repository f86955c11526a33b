"""Run libFuzzer on one decoder, in a process of `fuzzing.run`: driver.py TARGET [libFuzzer's arguments]."""

from __future__ import annotations

import ctypes
import sys

from support import fuzzing

from androstep_analysis import native


def main(name: str, options: list[str]) -> None:
    native.LIBRARY = fuzzing.LIBRARY
    import targets

    held = targets.prepared(name)
    library = native.library()
    words = [b"fuzz", *(option.encode() for option in options)]
    array = (ctypes.c_char_p * (len(words) + 1))(*words, None)
    count, pointer = ctypes.c_int(len(words)), ctypes.cast(array, ctypes.c_void_p)
    sys.exit(library.LLVMFuzzerRunDriver(ctypes.byref(count), ctypes.byref(pointer), getattr(library, f"fuzz_{name}")))
    del held


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
