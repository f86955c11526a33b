"""Format every command and its options as Markdown, for docs/conf.py, which inserts it into docs/options.md."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Iterator

from tables_md import cell

from androstep_analysis import cli

os.environ["COLUMNS"] = "90"  # fixed width of usage texts, independent of the terminal


def prose(text: str) -> str:
    """Convert help text to Markdown: options become code, names of pages become links, the rest is escaped."""
    return re.sub(r"(`[^`]*`)|docs/(\w+)\.md|(?<![\w-])(--?[a-z][a-z_-]*)|([\\*_<>\[\]~])", marked_up, text)


def marked_up(match: re.Match[str]) -> str:
    code, page, option, sign = match.groups()
    return code or (page and f"[{page}.md]({page}.md)") or (option and f"`{option}`") or f"\\{sign}"


def option_row(action: argparse.Action, formatter: argparse.HelpFormatter) -> str:
    """Return the table row of one argument: its forms and its help."""
    if action.option_strings:
        value = formatter._format_args(action, formatter._get_default_metavar_for_optional(action))
    else:
        value = formatter._format_args(action, formatter._get_default_metavar_for_positional(action))
    words = [f"`{' '.join(filter(None, [word, value]))}`" for word in action.option_strings or [""]]
    meaning = formatter._expand_help(action) if action.help else ""
    return f"| {cell(', '.join(words))} | {cell(prose(meaning))} |"


def section(name: str) -> Iterator[str]:
    """Yield the section of one command."""
    _, command = cli.parsers(name)
    assert command is not None
    yield f"## {name}\n\n```text\n{command.format_usage().rstrip()}\n```\n"
    for paragraph in (command.description or "").split("\n\n"):
        as_it_is = paragraph.startswith("example: ") or "\n " in paragraph
        text = paragraph.removeprefix("example: ").strip()
        yield f"```text\n{text}\n```\n" if as_it_is else f"{prose(text)}\n"
    rows = [option_row(action, command._get_formatter()) for action in command._actions if action.dest != "help"]
    if rows:
        yield "\n".join(["| argument | what it does |", "|---|---|", *rows]) + "\n"


def markdown() -> str:
    """Return a section for each command, in the order of `androstep --help`."""
    return "\n".join(part for name in cli.COMMANDS for part in section(name))
