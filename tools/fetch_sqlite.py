"""Fetch SQLite's source, one large C file, from the Rust package that contains it.

python tools/fetch_sqlite.py DIRECTORY: writes sqlite3.h and sqlite3.c there.
"""

from __future__ import annotations

import hashlib
import io
import sys
import tarfile
import urllib.request
from pathlib import Path

PACKAGE = "libsqlite3-sys-0.39.1"
URL = f"https://static.crates.io/crates/libsqlite3-sys/{PACKAGE}.crate"
SHA256 = "14a5f01b87b92705d07b433c06f96cbc764637d81a0bffb5734ce17cf0f9a2b3"


def fetch() -> bytes:
    """Download the package; `OSError` if it is unavailable, `ValueError` if its digest is wrong."""
    with urllib.request.urlopen(URL, timeout=60) as response:
        package: bytes = response.read()
    digest = hashlib.sha256(package).hexdigest()
    if digest != SHA256:
        raise ValueError(f"sha256 is {digest}, expected {SHA256}")
    return package


def unpack(package: bytes, directory: Path) -> None:
    """Unpack both files. The header is first, so that the presence of sqlite3.c implies both."""
    directory.mkdir(parents=True, exist_ok=True)
    with tarfile.open(fileobj=io.BytesIO(package)) as files:
        for name in ("sqlite3.h", "sqlite3.c"):
            member = files.extractfile(f"{PACKAGE}/sqlite3/{name}")
            assert member is not None
            part = directory / f".{name}"
            part.write_bytes(member.read())
            part.replace(directory / name)


def main() -> None:
    """Fetch and unpack; exit with status 1 and a message on failure."""
    directory = Path(sys.argv[1])
    try:
        unpack(fetch(), directory)
    except ValueError as error:
        sys.exit(f"fetch_sqlite: {URL}: {error}; this is not what was published: fetch it another way")
    except OSError as error:
        sys.exit(
            f"fetch_sqlite: {URL}: {error}; iobench is built with SQLite's source: connect to the network once, "
            f"or put sqlite3.h and sqlite3.c into {directory}"
        )


if __name__ == "__main__":
    main()
