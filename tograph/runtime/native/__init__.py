"""Whole graphs as machine code: one call runs a graph with its loops and branches, with no Python in between.

* The function of a graph: ``lower`` writes the nodes in the ``groups`` that run together (``producers``), ``boundary`` what it takes and gives (``leaving``, ``whole``), ``storage`` holds
  where values are (``values``, ``arena``, ``buffers``), ``code`` is the text, ``sizes`` has what only a run knows (``extents``).
* Before that: ``list_types``, ``composed``, ``batch_norms``, ``group_norms`` and ``layer_norms`` (``formulas``), ``created``, ``pads``, ``alike``, ``packing``, ``added``, ``placed`` (``patterns``), ``saving`` and ``complex_pairs`` (``complex_ops``, ``complex_emit``) change the graph, ``versions`` says which loops get two forms.
* Nodes: ``straight`` (``numbers``, ``scalar``, ``scalar_parts``, ``scalar_math``), ``loop_nodes`` (``nests``, ``loops``), views (``views``,
  ``reshapes``, ``indices``), moved elements (``moves``, ``parts``, ``transposes``, ``walks``, ``chosen``, ``scatters`` (``updates``), ``lanes``), products (``matmul``,
  ``micro_kernels`` (``matrices``, ``tiling``, ``packed``), ``stacked``, ``tall``, ``blas`` (``fortran``), ``joined``, ``masked``,
  ``looks``, ``followed``, ``ahead``), lists (``lists``, ``list_items``, ``list_memory``, ``list_slices``, ``list_splices``, ``list_functions``, ``list_sums``), random numbers (``draws``, ``drawing``, ``generator``), matrices
  (``lapack``), sorts (``sorting``), prints (``telling``), exceptions (``unsaid``), numbers of Python's (``outside``), texts
  (``texts``, ``text_types``, ``text_code``, ``text_pool`` (``text_records``), ``text_sweeps``), complex tensors (``complex_parts``); the others are ``calls`` of torch (``callees``).
* Branches and loops: ``control``, loops over elements (``blocks``, ``block_parts``, ``block_code``), functions that call themselves (``recursion``, ``stack``), what loops carry (``carry_modes``, ``carries``, ``grown``), variables in their own memory (``direct``), signals
  (``polling``), torch's threads (``threading``).
* Running it: ``compiling`` makes code of a graph, ``program`` calls it, ``form`` is what a call needs to know, ``results``, ``rows`` and ``pool`` make its values, ``plans`` keep
  code for other processes.
* The call path in machine code: ``caller``, ``entry`` (``entry_text``, ``entry_checks``, ``entry_results``, ``entry_left``), ``recycling``, ``layout``.
"""
