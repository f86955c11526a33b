"""Many captures as one: found below a directory or at an address, and measured one by one, on many cores or a cluster.

>>> collection = androstep.collection("captures/**")
>>> collection.facts()
>>> collection.compare("locality", by=["device"], baseline="Pixel 6a")
"""

from androstep_analysis.compare.collections.captures import Collection, collection

__all__ = ["Collection", "collection"]
