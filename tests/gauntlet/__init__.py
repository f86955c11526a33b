"""Recordings with known truth, corrupted in all the ways that occur in practice.

`trace` takes a recording apart and writes it again, `images` makes images that do not belong to it, `situations` are
the corruptions, and `judging` compares the package's answers with the truth: no fact may be wrong, and one sentence
must name what happened. ``python tests/gauntlet`` prints the table in docs/truth.md.
"""
