"""Live view of a device's storage: the last seconds of a running recording, by process, app or file."""

from androstep_analysis.present.live.live import Live, Moment
from androstep_analysis.present.live.ranking import KEYS, SORTS, ranking, totals

__all__ = ["KEYS", "SORTS", "Live", "Moment", "ranking", "totals"]
