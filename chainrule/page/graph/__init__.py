"""Graphs as pictures: a `Picture` of cards and edges, and its text, SVG and source for Graphviz."""
