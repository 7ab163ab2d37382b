"""What a graph is, and what it means.

* The data: ``types``, ``ops`` (one row per op; ``families`` of them; ``arranged`` what of its operands lies how, ``item_errors`` what is raised of items), ``ir`` (``constants``: small tensors as nodes); ``ordering`` says what nodes do beside computing (``memory_homes``), ``overwritten`` what their
  regions write over.
* As text and back: ``text`` (``text_constants``, ``arities``). Whether one is well formed: ``verification``. Who changes one: ``rewrite``.
* What it means: ``interp``, the reference interpreter; ``prints`` are the texts that one prints, ``outside`` numbers of Python's random generators and clocks, ``collectives`` what ranks of a process group tell each other.
"""
