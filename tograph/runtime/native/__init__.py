"""Whole graphs as machine code: one call runs a graph with its loops and branches, with no Python in between."""
