"""Kernels: fused regions of a graph as loops, and the renderers that make machine code of them."""
