"""Python values that a graph carries: their specs, their parts, and containers whose length only the run knows.

* ``structure`` has the specs (``specs`` for users), ``joins`` their order (``either`` of a number or a tensor, ``alike`` of functions), ``facts`` what a branch knows of them; ``pytrees`` takes values apart, ``flattening`` puts
  them into a graph and back (``torch_trees``).
* Lists that may become lists of the graph: ``growing``, ``deques``, ``staged_tuples``; ``list_specs``, ``records``, ``list_content``, ``list_lengths``, ``listed``, ``inner_lists`` (``homes``). Sets and
  dicts: ``conditional_items``, ``dict_views``, ``keyed_parts``, ``reserved``, ``tables``.
* Calls: ``arguments`` in parts, the ``keys`` of the trace cache (``exact``), and ``families`` of calls that differ in sizes and numbers. What cannot be copied (``pickling``).
* Objects around a piece of code: what it can ``reach`` (``code_names``), and the ``locations`` that it may change.
"""
