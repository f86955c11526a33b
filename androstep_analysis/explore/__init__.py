"""Interactive explorer of a capture's requests for notebooks: ``capture.explore()`` (docs/explore.md)."""

try:
    from androstep_analysis.explore.explorer import Explorer
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"the explorer needs the Python package {error.name}; `pip install 'androstep[notebook]'`", name=error.name
    ) from None

__all__ = ["Explorer"]
