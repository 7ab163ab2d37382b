"""What a graph is, and what it means.

* The data: ``types``, ``ir`` (``constants``: small tensors as nodes).
* What ops mean: ``ops``, the table, with one row (``rows``) per op: ``aten_rows``, ``number_rows``, ``outside_rows``, ``state_rows``, ``list_rows``, ``lowered_rows``;
  ``families`` of them; ``opaque`` objects among arguments, ``generators`` among these; ``arranged``: what of an op's operands lies how; ``item_errors``: what is raised of items; ``quick`` ways to call torch.
* ``ordering`` says what nodes do beside computing (``memory_homes``), ``counting`` how loops count, ``overwritten`` what their regions write over.
* As text and back: ``text`` (``text_constants``, ``arities``). Whether one is well formed: ``verification``. Who uses its values: ``uses``; who changes one: ``rewrite``.
* What it means: ``interp``, the reference interpreter; ``prints`` are the texts that one prints, ``outside`` numbers of Python's random generators and clocks, ``collectives`` what ranks of a process group tell each other.
"""
