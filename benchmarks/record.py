"""Records per second: written by the C writer into memory, read by Python.

``python benchmarks/record.py [--records N]``. Needs a C compiler and 300 MB in /dev/shm.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
import time
from pathlib import Path

from androstep_analysis.ingest import record

ROOT = Path(__file__).resolve().parents[1]

WRITER = """
#include "common/record.h"
#include <stdlib.h>
#include <string.h>
struct row { int64_t sector, nr_sectors, ino, generation, offset; uint32_t dev, flags; };
struct file { int64_t ino, size; struct record_string path; };
#define N(member) RECORD_FIELD(row, member, RECORD_INT64, false, NULL, "A number.")
static const struct record_field row_fields[] = {N(sector), N(nr_sectors), N(ino), N(generation), N(offset),
    RECORD_FIELD(row, dev, RECORD_UINT32, false, NULL, "A number."),
    RECORD_FIELD(row, flags, RECORD_UINT32, false, NULL, "A number.")};
static const struct record_field file_fields[] = {
    RECORD_FIELD(file, ino, RECORD_INT64, false, NULL, "A number."),
    RECORD_FIELD(file, size, RECORD_INT64, false, NULL, "A number."),
    RECORD_FIELD(file, path, RECORD_STRING, true, NULL, "A path.")};
static const struct record_type rows = {"rows", NULL, "Rows.", row_fields, 7};
static const struct record_type files = {"files", NULL, "Files.", file_fields, 3};
static const struct record_type *const types[] = {&rows, &files};
static const struct record_probe probe = {"bench", types, 2};
int main(int argc, char **argv)
{
    static const char path[] = "/data/data/com.example.application/databases/observations.db";
    struct record *out = argc > 3 ? record_open(argv[1], &probe) : NULL;
    int with_paths = argc > 3 && !strcmp(argv[3], "files");
    for (long number = 0; out && number < atol(argv[2]); number++) {
        struct row row = {number * 8, 8, number, 1, 0, 1 << 20, 1};
        struct file file = {number, 4096, {0, 0}};
        struct record_text text = {path, sizeof path - 1};
        if (with_paths)
            record_add(out, &files, &file, &text);
        else
            record_add(out, &rows, &row, NULL);
    }
    return !out || record_close(out);
}
"""

SOURCES = ("clock", "complain", "crc", "json", "procfs", "record")


def main() -> None:
    """Print a line per kind of record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=3_000_000)
    records = parser.parse_args().records
    with tempfile.TemporaryDirectory(prefix="androstep-bench-", dir="/dev/shm") as scratch:
        source, program, out = (Path(scratch) / name for name in ("writer.c", "writer", "out.rec"))
        source.write_text(WRITER, encoding="utf-8")
        probes = ROOT / "probes"
        files = [probes / "common" / f"{name}.c" for name in SOURCES]
        subprocess.run(["cc", "-std=c11", "-O2", f"-I{probes}", source, *files, "-o", program], check=True)
        print(f"{'records':24}{'MB':>8}{'written/s':>14}{'read/s':>14}")
        for kind, what in (("rows", "numbers (48 B)"), ("files", "with a path (80 B)")):
            start = time.perf_counter()
            subprocess.run([program, out, str(records), kind], check=True)
            written = time.perf_counter()
            read = record.read(out)
            done = time.perf_counter()
            assert read.complete and read.tables[kind].height == records
            rates = f"{records / (written - start):14,.0f}{records / (done - written):14,.0f}"
            print(f"{what:24}{out.stat().st_size / 1e6:8.0f}{rates}")


if __name__ == "__main__":
    main()
