"""Writes in place, in a graph of values: ``mutation`` makes a new value for the storage, through ``view_writes``.

``out_arguments`` takes the shape of what is written to it, ``overlap`` refuses what torch refuses, ``twins`` are detached tensors, and what is ``turned`` is written in another order.
What a write does to gradients: ``stale`` values were saved before it, those of users' own gradients in ``saving``, ``histories`` follow
it, ``iterations`` are those of what loops carry (``edges`` tell what was computed from what, ``two_names`` which state is a tensor from before the loop, too, ``rebasing`` gives tensors others; ``list_histories`` are those of lists in loops, ``list_reads`` what is read from lists), and ``freed`` ones are gone. ``hooked``: gradient hooks of what is one of several tensors; ``torn``: gradients taken inside do not see its writes. ``several_views`` of one op are not written where gradients are recorded.
"""
