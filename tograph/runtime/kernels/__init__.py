"""Kernels: machine code that runs parts of a graph."""
