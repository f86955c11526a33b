"""Provenance of a report: sources, definitions and versions."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import platform
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from androstep_analysis.common import schema
from androstep_analysis.common.markup import Element, el

if TYPE_CHECKING:
    from androstep_analysis.capture import Capture


def found(capture: Capture) -> dict[str, Any]:
    """Return the provenance of a report, ready for JSON.

    Keys: capture_id, title, source_sha256, definitions_sha256, versions, and classes if the user gave any.
    """
    return {
        "capture_id": capture.facts["capture_id"],
        "title": capture.title,
        "source_sha256": json.loads(capture.facts["source_sha256"]),
        **made_by(),
        **({"classes": asdict(capture.classes)} if capture.classes.rules else {}),
    }


def made_by() -> dict[str, Any]:
    """Return definitions_sha256 and versions, ready for JSON."""
    packages = ("androstep", "polars", "numpy", "matplotlib")
    definitions = (schema.directory() / "definitions.toml").read_bytes()
    return {
        "definitions_sha256": hashlib.sha256(definitions).hexdigest(),
        "versions": {name: importlib.metadata.version(name) for name in packages}
        | {"python": platform.python_version()},
    }


def sentence(provenance: Mapping[str, Any]) -> Element:
    """Render the result of `made_by` as a sentence."""
    versions = ", ".join(f"{name} {version}" for name, version in provenance["versions"].items())
    return el("p", f"Made by {versions}. Definitions: sha256 {provenance['definitions_sha256']}.")


def elements(provenance: Mapping[str, Any]) -> list[Element]:
    """Render the result of `found` for the end of the page."""
    sources = [
        el("tr", el("th", name, scope="row"), el("td", digest)) for name, digest in provenance["source_sha256"].items()
    ]
    rules = provenance.get("classes", {})
    named = [rule["name"] for kind in ("file_types", "apps") for rule in rules.get(kind, ())]
    return [
        sentence(provenance),
        *([el("p", f"Named by rules of the user: {', '.join(dict.fromkeys(named))}.")] if named else []),
        el(
            "table",
            el("thead", el("tr", el("th", "Source", scope="col"), el("th", "sha256", scope="col"))),
            el("tbody", *sources),
            class_="hashes",
            aria_label="Sources",
        ),
    ]
