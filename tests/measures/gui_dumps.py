"""Dumps of GUIs as uiautomator writes them, for tests."""

from __future__ import annotations

from xml.sax.saxutils import quoteattr

PACKAGE = "org.example.app"


def node(name: str = "android.widget.TextView", *children: str, package: str = PACKAGE, **attributes: str) -> str:
    """Return a node of a dump. Attributes with a dash have an underscore here."""
    given = {"index": "0", "text": "", "class": name, "package": package, "bounds": "[0,0][10,10]"}
    told = given | {key.rstrip("_").replace("_", "-"): value for key, value in attributes.items()}
    return f"<node {' '.join(f'{key}={quoteattr(value)}' for key, value in told.items())}>{''.join(children)}</node>"


def dump(*nodes: str) -> bytes:
    """Return a whole dump."""
    head = "<?xml version='1.0' encoding='UTF-8' standalone='yes' ?>"
    return f'{head}<hierarchy rotation="0">{"".join(nodes)}</hierarchy>'.encode()
