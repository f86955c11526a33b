"""Where pytest-benchmark keeps what it measures: with what else is made, not in the checkout's root."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    if config.pluginmanager.hasplugin("benchmark"):
        directory = Path(__file__).resolve().parents[1] / "build" / "benchmarks"
        config.option.benchmark_storage = directory.as_uri()
