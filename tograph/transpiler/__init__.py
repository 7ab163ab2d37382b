"""Python's syntax trees in and out. Nothing here imports torch.

* In and out: ``parsing`` makes the tree of a function (``syntax``, from Python's by ``trees``) from what ``source_search`` finds and ``recompiling`` checks, ``loader`` a function of a tree, ``printing`` source for people (``statements``,
  ``quoting``, ``writing``).
* What a function does with names: ``scope`` and ``walker`` (``binders``); along the ways through it (``cfg``): ``liveness``, ``reaching``. ``analysis`` does
  all of it once, ``anno`` keeps what was found.
* New code: ``templates``, with ``names`` that clash with none of the user's.
"""
