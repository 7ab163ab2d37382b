"""Graphs: what they are, how they are recorded, kept and run. Nothing here knows syntax trees.

Packages, each importing only from those above it:

* ``graph``, ``inference``: what a graph is, and what its ops give; ``display`` shows it.
* ``passes``, ``kernels``: graph to graph, and loops that are compiled.
* Recording: ``symbols`` stand for values of a graph, ``values`` are Python's around them; ``report`` and ``diagnosis`` show them; ``writes`` in place,
  ``recording``, ``guarding`` of what was read, ``containers``, ``gradients``, ``control_flow``, and the ``library`` of functions for users.
* ``autodiff``: gradients of graphs.
* ``native`` on CPUs, ``gpu``, ``interchange`` with other systems, and ``execution``, which chooses how a graph runs.
* ``traces`` and ``functions``; ``saved`` files.
"""
