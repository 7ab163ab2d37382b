"""Graphs: what they are, how they are recorded, kept and run. Nothing here knows syntax trees.

Packages: ``control_flow`` (staged constructs), ``autodiff``, ``passes``, ``kernels``, ``native`` (CPUs), ``gpu``, ``interchange``, ``saved``, ``report``, ``diagnosis``,
``containers``.

* What a graph is: ``types``, ``ops``, ``ir``, ``ordering`` (``memory_homes``), ``text`` (``text_constants``), ``verification``; ``rewrite`` for who changes one.
* What ops give: ``shapes``, ``nn_shapes``, ``linalg_shapes``, ``data_shapes``, ``special_shapes``; ``infer`` asks them, else torch's kernels (``meta_kernel``, ``stand_in``), and ``refusals`` asks torch which dtypes it takes; ``layouts`` tells which tensors a graph takes.
* Recording: ``tracing`` and ``funcgraph``; ``symbolic`` tensors (``valueless``, ``asking``), numbers (``scalars``, ``scalar_nodes``), ``staged_string``; what is
  ``known``, what torch takes for granted (``assumptions``), what is ``required``, and the ``facts`` of a branch.
* Writes: ``mutation``, ``view_writes``, ``overlap``, ``shared_memory``, ``twins``, ``stale``, ``overwritten``.
* Python values: ``structure`` has their specs (``joins``, ``specs``, ``list_specs``), ``pytrees`` and ``flattening`` their parts; lists that may become lists of the
  graph: ``growing``, ``deques``, ``staged_tuples`` (``torch_trees``), ``records``, ``list_content``, ``list_lengths``, ``listed``,
  ``inner_lists``; sets and dicts: ``conditional_items``.
* Python state: ``journal`` and ``locations`` note changes, ``reach`` and ``opaque`` what may change, ``unconverted`` what code did that is not converted; ``commits``,
  ``call_effects`` and ``results`` are what a call leaves outside, ``shared_objects`` what of it is one object; ``creation``, ``variables``, ``line_search_state``.
* What a trace depends on: ``reads`` of ``sources`` (``lookups``, ``code_names``, ``callables``) become ``guards`` and ``place_checks``, what is asked of torch's modes too (``questions``); ``slots`` and ``outer_numbers`` become inputs.
* A function: ``function``, ``methods``, ``rebinding``, ``signatures``, ``arguments``, ``keys``, ``exact``, ``trace_cache``; ``openings`` and ``families`` say what stays open, ``retraces`` why
  one was traced.
* A trace: ``tracer`` makes one from ``placeholders`` (``retrace``, ``interrupts``, ``shown``), ``finishing`` ends it, ``traces`` and ``concrete`` keep it, ``binding``, ``entries`` and ``forms`` call it.
* How it runs: ``scheduler``, ``host``, ``interp``; ``watching``, ``transforms``, ``probes``, ``prints``.
* Gradients: inside ``grads``, ``grad_fields``, ``optional_grads``, ``hooks``, ``histories``, ``outer_gradients``, ``freed``, ``engine``, ``carrier``; around a call ``gradient_calls``; the user's own ``custom``,
  ``autograd_functions``.
* Functions for users: ``higher_order``, ``row_loops``, ``effects``, ``debug`` (``misuse``); of torch, in other words: ``determinants``, ``narrowing``, ``open_forms``, ``products``.
* What is shown: ``artifacts``, ``decisions``, ``notebook``.
"""
