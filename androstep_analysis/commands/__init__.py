"""The commands of `androstep`, a module each: `add` puts it on the command line."""
