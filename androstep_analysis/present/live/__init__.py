"""What the storage of a device does right now: the last seconds of a recording under way, and who was at it."""

from androstep_analysis.present.live.live import Live, Moment
from androstep_analysis.present.live.ranking import KEYS, SORTS, ranking, totals

__all__ = ["KEYS", "SORTS", "Live", "Moment", "ranking", "totals"]
