"""How captures and measures are shown: in a terminal, on a page, in a notebook, as a figure."""
