"""What a trace depends on besides its arguments: reads of places, and the guards that they become.

* ``reads`` are taken by a ``watch``, made at ``sources`` (``lookups``, ``callables``) and become ``guards`` (``size_relations``, ``size_words``), ``place_checks`` and ``tensor_checks`` (``tensor_facts``); ``function_reads`` are those of functions that run, ``class_reads`` of what classes hold, ``which_objects`` those that ask which object one is, ``questions`` are those asked of torch's modes.
* ``slots`` and ``outer_numbers`` are looked up at each call and become inputs, as is what ``followed_objects`` hold; ``shared_memory`` is that of tensors which are written. ``outer_lists`` grow in a call, ``outer_tables`` get keys.
* ``call_checks`` are those of the tensors of a call, for calls that cannot trace anew.
* ``draws``: what numpy's random generators drew. ``unconverted``: what code that is not converted changed.
"""
