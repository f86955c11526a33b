"""AndroStep's programs for devices: static ones, in a directory for every target. `androstep` finds them here."""
