"""Numbers of system calls are those of the kernel's own headers, which the cross compiler brings for every machine."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from androstep_analysis.ingest.syscalls import numbers

TARGETS = {
    "x86_64": "x86_64-linux-musl",
    "i386": "x86-linux-musl",
    "aarch64": "aarch64-linux-musl",
    "arm": "arm-linux-musleabihf",
}


@pytest.mark.parametrize("machine", TARGETS)
def test_every_number_of_the_kernel_headers(machine: str) -> None:
    command = [sys.executable, "-m", "ziglang", "cc", "-target", TARGETS[machine], "-E", "-dM", "-x", "c", "-"]
    source = "#include <asm/unistd.h>\n"
    macros = subprocess.run(command, input=source, capture_output=True, text=True, check=True).stdout
    values = {name: value.strip() for name, value in re.findall(r"#define (\w+) (.*)", macros)}
    headers = {}
    for name, value in values.items():
        number = re.fullmatch(r"\(?(?:(__NR_\w+) ?\+ ?)?(0x[0-9a-fA-F]+|\d+)\)?", value)
        if name.startswith("__NR_") and number:
            headers[int(values.get(number[1] or "", "0"), 0) + int(number[2], 0)] = name.removeprefix("__NR_")
    # Not calls: the number of all calls, and the first of those that a machine adds to the generic ones.
    headers = {n: name for n, name in headers.items() if name not in ("syscalls", "arch_specific_syscall")}
    ours = numbers.names(machine)
    assert len(headers) > 250
    assert {n: ours[n] for n in headers if n < len(ours)} == {n: headers[n] for n in headers if n < len(ours)}
