"""Mistakes in the losses of scripts: terms that train nothing, cuts of the graph, constants."""
