"""Reports: in a terminal, as data, as a page."""
