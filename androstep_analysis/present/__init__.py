"""Presentation of captures and measures: terminal, HTML page, notebook and figures."""
