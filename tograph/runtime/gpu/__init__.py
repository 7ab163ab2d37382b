"""Graphs on a CUDA device without the host: plans of kernels and conditional nodes, and what runs them.

* Graphs that a plan can have: ``retarget`` moves one, ``transfers`` takes what is on the CPU along, ``speculation`` computes both sides of small
  branches; ``bounded`` gives lists and open sizes fixed memory (``bounding``, ``bounding_regions``, ``forms``, ``bounded_lists``, ``bounded_sizes``,
  ``bounded_lookups``, ``bounded_masks``, ``bounded_state``, ``bounded_views``, ``bounded_draws``).
* The plan: ``planner`` makes ``steps`` and a ``plan`` of ``places`` (``row_products`` and ``read_through`` change what loops do with rows, ``nested_items`` writes, ``dropouts`` dropout, ``activations`` products; ``single_ops``, ``library``, ``draws``, ``conditionals``); ``ranges`` finds what
  cannot fail, ``doubts`` what decides whether something does, ``memory`` what may be written over, ``coalescing`` copies that are not needed, ``hazards`` the order, ``stores`` the variables;
  ``compacting`` makes it small, by ``once``, what is computed once, and ``joining``, small kernels that are one.
* What runs it: ``program`` takes the highest tier of ``capture`` (``probe``, or ``fusing`` with ``fused_code``,
  ``refresh``, ``pointers``), chunks or steps
  (``execute``), or kernels one by one (``direct``); ``resume`` lets the host go on, ``loop_tuning`` measures. What the host does in loops: ``messages``
  (``message_kernels``, ``ring``) and ``visits``.
* The device: ``storage``, ``block``, ``uploads`` and ``downloads`` for what goes between it and the host, ``result_strides`` for how results lie.
"""
