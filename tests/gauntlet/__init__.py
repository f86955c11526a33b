"""Recordings of which the truth is known, spoilt in every way in which other people's recordings are.

`trace` takes a recording apart and writes it again, `images` makes images that do not belong to it, `situations` are
the ways of spoiling it, and `judging` holds what the package then says against the truth: nothing wrong may be stated
as a fact, and one sentence names what happened. ``python tests/gauntlet`` prints the table in docs/truth.md.
"""
