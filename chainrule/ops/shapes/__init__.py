"""Elements moved, cut, joined and padded: nothing is computed."""
