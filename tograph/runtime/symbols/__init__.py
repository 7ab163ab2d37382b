"""What stands for values of a graph while Python runs: symbolic tensors and numbers, in graphs that are being recorded.

* ``funcgraph``: the graphs, and the stack of them; ``root``: what those of one trace share. ``journal``: what tracing changed.
* ``symbolic`` tensors (``descriptions``, ``leaf_values``, ``wholes``) with their ``views``, and a ``carrier`` for what is no tensor; numbers are ``scalars`` over ``scalar_nodes``.
* Questions that only the run can answer: ``valueless`` refuses them, ``mapped`` what a transform has wrapped, ``asking`` says who asked, ``assumptions`` are checked later. What is ``known`` is answered, and so is what tensors from outside hold (``contents``); what is
  ``required`` raises as Python or torch would; ``retrace`` begins again; ``switched``: tensors from outside that code makes leaves of, or freezes; ``misuse`` is about what users give. ``products`` of tensors whose sizes only the run knows; ``open_layouts``: where such views lie in memory.
* Proofs about whole numbers: ``affine`` sums of what ``number_facts`` tell about, ``proofs`` that one is never negative, and ``limits`` of one. ``bounds`` are what the nodes of a value say.
* ``library_ops``: which ops of libraries want a gradient. ``decisions``: what was staged, and why. ``packing``: what torch detaches for hooks. ``plain_apply``: functions
  of autograd that transforms of torch do not look at. ``duals``: tensors of forward-mode AD. ``code_lines``: the line that a frame is at. ``devices``: what the first tensor of a GPU sets off.
"""
