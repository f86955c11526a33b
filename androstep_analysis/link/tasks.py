"""What a thread is to the storage stack. Stated in `ingest.tasks`, since readers fill in the kind as well."""

from androstep_analysis.ingest.tasks import kind

__all__ = ["kind"]
