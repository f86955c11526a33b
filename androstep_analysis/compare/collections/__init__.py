"""Collections of captures, from directories or addresses, that are measured on many cores or a cluster.

>>> collection = androstep.collection("captures/**")
>>> collection.facts()
>>> collection.compare("locality", by=["device"], baseline="Pixel 6a")
"""

from androstep_analysis.compare.collections.captures import Collection, collection

__all__ = ["Collection", "collection"]
