"""One construct, one file: the rewrite of its syntax, and the operator that runs in its place.

* Converting: ``api`` is ``tg.function``; ``conversion`` converts a function at its first call, ``pipeline`` has the passes in order (``context``, ``clashes``), ``kept`` what
  earlier processes made; ``operators`` is the namespace ``ag__``.
* Statements: ``if_stmt``, ``while_stmt``, ``for_stmt`` (``staged_for``, ``number_lists``), ``long_loops``, ``try_stmt`` (``handlers``, ``raise_stmt``, ``exception_groups``), ``with_stmt`` (``exit_stacks``) and ``context_managers``, on local functions that ``functional`` makes
  (``places``); before them ``match_stmt`` (``patterns``), ``jumps``, ``finally_jumps``, ``idle_finally``; ``asserts``, ``directives``, ``annotations``.
* Expressions: ``logical``, ``comparisons``, ``conditional_expression`` (``thunks``, ``class_scopes``), ``comprehensions``, ``lists``, ``displays``, ``strings`` (``text_options``), ``powers``, ``user_operators`` (``operator_methods``).
* Names and places: ``variables``, ``attributes`` (``attribute_writes``, ``failure_attributes``), ``subscripts`` (``tensor_index``, ``sequence_index`` (``number_arrays``, ``staged_array``), ``list_slices``, ``list_keys``, ``index_objects``, ``tensor_keys``, ``staged_bytes``, ``keyed``), ``targets``, ``unpacking``, ``escapes``.
* Calls: ``calls``, by ``call_rules`` and the tables of ``registry``, which ``builtin`` fills; ``construction``, ``generic_aliases``, ``special_results``, ``recursion`` (``rings``, ``recursive_calls``, ``shared_results``), ``standard``, ``keywords``, ``spread``, ``star_arguments``, ``module_hooks`` (``hook_nodes``), ``torchscript``, ``compiled``; code
  that is not converted: ``left_alone`` (``outside_world``, ``threads``), ``resolved``, ``flags``.
* Items: ``iter_call``, ``iterables`` (``chosen_items``, ``equal_ranges``), ``iterators``, ``staged_range``, ``generators`` (``resumable``, ``one_by_one``), ``consumers``, ``growing_lists`` (``joined_lists``), ``tables`` (``table_algebra``, ``new_keys``, ``set_order``), ``members`` (``set_relations``, ``staged_members``), ``steady``, ``container_changes``,
  ``container_methods``, ``progress``.
* Staged values: ``staging`` says which are, ``union`` has those of several kinds (``union_keys``), ``staged_class`` the class of an exception.
"""
