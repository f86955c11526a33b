"""Do the file I/O of a messenger: the workload of the traces in this directory.

    python datasets/whatif/workload.py DIRECTORY [--synchronous FULL|OFF]

There are fifty messages, as in Luo et al. Each is a transaction of SQLite whose rollback journal is truncated, as on
Android. After every tenth message a picture of 64 KiB is stored without a sync.
"""

from __future__ import annotations

import argparse
import random
import sqlite3
from pathlib import Path

MESSAGES = 50
PICTURE_BYTES = 64 << 10


def main() -> None:
    """Send the messages."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("directory", type=Path)
    parser.add_argument("--synchronous", choices=["FULL", "OFF"], default="FULL")
    options = parser.parse_args()
    chance = random.Random(1)
    database = sqlite3.connect(options.directory / "messages.db", isolation_level=None)
    database.execute("PRAGMA journal_mode = TRUNCATE")
    database.execute(f"PRAGMA synchronous = {options.synchronous}")
    database.execute("CREATE TABLE messages (id INTEGER PRIMARY KEY, text BLOB)")
    for number in range(MESSAGES):
        database.execute("INSERT INTO messages (text) VALUES (?)", (chance.randbytes(400),))
        if number % 10 == 9:
            (options.directory / f"picture{number}.jpg").write_bytes(chance.randbytes(PICTURE_BYTES))
    database.close()


if __name__ == "__main__":
    main()
