"""Other points at which a backward has to be right: sizes, proportions, values, settings."""
