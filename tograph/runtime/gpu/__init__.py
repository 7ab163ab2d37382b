"""Graphs on a CUDA device without the host: plans of kernels and conditional nodes, and what runs them."""
