"""Release captures as datasets, verify them, and fetch them (docs/datasets.md)."""

from androstep_analysis.datasets.documents import Description
from androstep_analysis.datasets.fetch import fetch
from androstep_analysis.datasets.parquet import tables
from androstep_analysis.datasets.release import release
from androstep_analysis.datasets.verify import Verification, verify

__all__ = ["Description", "Verification", "fetch", "release", "tables", "verify"]
