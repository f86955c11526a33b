"""Do a messenger's work for fifty messages with real SQLite. `apps.Messages` runs it.

    python datasets/apps/messenger.py DIRECTORY

The rollback journal is truncated, as on Android. Each message is two transactions (the message and its conversation).
Every tenth message has a picture of 64 KiB, which is not synced. The output is the begin and end of each message, in ns
of CLOCK_REALTIME. A real app's CPU work is not simulated.
"""

from __future__ import annotations

import random
import sqlite3
import sys
import time
from pathlib import Path

MESSAGES = 50
PICTURE_BYTES = 64 << 10


def main() -> None:
    """Send the messages and print their times."""
    directory, chance = Path(sys.argv[1]), random.Random(1)
    database = sqlite3.connect(directory / "messages.db", isolation_level=None)
    database.execute("PRAGMA journal_mode = TRUNCATE")
    database.execute("PRAGMA synchronous = FULL")
    database.execute("CREATE TABLE messages (id INTEGER PRIMARY KEY, conversation INTEGER, text BLOB)")
    database.execute("CREATE TABLE conversations (id INTEGER PRIMARY KEY, last INTEGER)")
    database.executemany("INSERT INTO conversations VALUES (?, 0)", [(number,) for number in range(8)])
    for number in range(MESSAGES):
        begun = time.time_ns()
        conversation = chance.randrange(8)
        row = (conversation, chance.randbytes(400))
        last = database.execute("INSERT INTO messages (conversation, text) VALUES (?, ?)", row).lastrowid
        database.execute("UPDATE conversations SET last = ? WHERE id = ?", (last, conversation))
        if number % 10 == 9:
            (directory / f"picture-{number}").write_bytes(chance.randbytes(PICTURE_BYTES))
        print(begun, time.time_ns())
    database.close()


if __name__ == "__main__":
    main()
