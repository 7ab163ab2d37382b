"""One trace: how it is made, what it keeps, and how it is called.

* ``tracer`` makes one from ``placeholders`` and ``finishing`` ends it (``shown``); its ``results`` (``keeping``, ``rebuilding``, ``left_functions``, ``made_tensors``), ``commits`` (``changes``) and ``call_effects`` are what a call leaves outside
  (``line_search_state``, ``shared_objects``), ``optimizer_state`` what there is before a first step, ``identities`` which results are the caller's tensors, ``failures`` what an exception tells.
* ``concrete`` keeps the graph (``programs``: what runs it), ``traces`` what must hold for it. ``binding``, ``entries`` and ``forms`` call it, with ``timing`` for a report, without the modes that are ``ambient``.
"""
