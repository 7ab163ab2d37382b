"""``tracing``: Python code runs, and every op becomes a node.

``variables`` and modules are made once (``creation``), ``new_constants`` are tensors that the code makes of numbers. ``opaque`` objects do not show what they hold; ``interrupts`` is Ctrl-C, ``outer_tracers`` are
torch's own around a call, ``foreach`` ops on lists of tensors, ``schemas`` what an op says of its arguments, ``collectives`` those of ``torch.distributed``, ``ways`` whether there is a cotangent,
``now`` what values of the graph are in the call that is traced, ``overflows`` numbers that a type cannot hold, ``attention`` its form on a GPU,
``parts`` slices, and ``ranges`` those of numbers, whose size is known though their ends are not, ``masks`` those that stand beside other indices, ``strided`` the offset of ``as_strided``, ``summed`` gradients of what is broadcast,
``compared`` whether tensors are equal, where C++ asks.
"""
