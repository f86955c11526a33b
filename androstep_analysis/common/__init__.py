"""Shared helpers: units, schemas, errors, losses, manifests and atomic file writes."""
