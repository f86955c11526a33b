"""Configure Sphinx for the site (`make docs`).

The source directory is the whole checkout. Relative links between pages, notebooks and READMEs therefore work both on
the site and in the repository.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx

sys.path.append(str(Path(__file__).resolve().parents[1] / "tools"))

import commands_md

project = "AndroStep"
language = "en"
smartquotes_action = "D"
root_doc = "docs/index"
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
include_patterns = [
    *("docs/**.md", "notebooks/**.ipynb", "datasets/*/README.md", "benchmarks/README.md", "probes/FORMAT.md"),
    *("ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"),
]
exclude_patterns = ["build", ".venv", ".*", "**/.ipynb_checkpoints"]

# Anchors of headings are those of the repository's host. Notebooks are run before the build, see `show_notebook`.
myst_heading_anchors = 3
nb_execution_mode = "off"

# Text in single backticks links to an object of the package if there is one, and is code otherwise.
default_role = "py:obj"
napoleon_google_docstring = False
autodoc_member_order = "bysource"
autodoc_typehints = "none"
toc_object_entries_show_parents = "hide"

html_theme = "furo"
pygments_dark_style = "github-dark"
html_title = "AndroStep"
html_copy_source = False
html_show_copyright = False
html_use_index = False
html_domain_indices = False
html_static_path = ["site.css", "site.js"]
html_css_files = ["site.css"]
html_js_files = [("site.js", {"defer": "defer"})]
html_additional_pages = {"index": "redirect.html"}
templates_path = ["."]


def add_options(_app: Sphinx, page: str, source: list[str]) -> None:
    """Append the options of all commands, from their parsers, to the page docs/options.md."""
    if page == "docs/options":
        source[0] += commands_md.markdown()


def show_notebook(app: Sphinx, page: str, source: list[str]) -> None:
    """Replace a notebook with its executed copy, if tools/run_notebooks.py has made one."""
    executed = Path(app.srcdir, app.config.shown_notebooks, f"{page.removeprefix('notebooks/')}.ipynb")
    if page.startswith("notebooks/") and executed.is_file():
        source[0] = executed.read_text("utf-8")


def link_pages(_app: Sphinx, _what: str, _name: str, _of: object, _options: object, lines: list[str]) -> None:
    """Turn names of pages in docstrings (docs/NAME.md, schemas/definitions.toml) into links."""
    pages = re.compile(r"(`*)(?:docs/(\w+)\.md|schemas/(definitions)\.toml)\1")
    lines[:] = [pages.sub(lambda match: f":doc:`/docs/{match[2] or match[3]}`", line) for line in lines]


def name_targets(_app: Sphinx, page: nodes.document) -> None:
    """Show the title of a page as the text of a link named after its file, and add alternative texts to figures."""
    for link in page.findall(pending_xref):
        if re.fullmatch(r"\w+\.md", link.astext()):
            link["refexplicit"] = False
    for image in page.findall(nodes.image):
        image.setdefault("alt", "The figure that the code above makes")


def setup(app: Sphinx) -> None:
    app.add_config_value("shown_notebooks", "build/notebooks", "env")
    app.connect("source-read", add_options)
    app.connect("source-read", show_notebook)
    app.connect("doctree-read", name_targets)
    app.connect("autodoc-process-docstring", link_pages)
