"""``tg.function``: a ``function`` and its traces.

``signatures`` bind calls, ``openings`` say what of them stays open, ``trace_cache`` keeps the traces, ``latest`` the entries of the last ones, and ``retraces`` tell why there is another. ``methods`` have a function
for each object; ``rebinding`` copies and pickles; ``opened_records`` are objects that are made for each call and taken apart; ``stand_ins`` (``stand_in_kinds``) take the place of generators and closures that differ from call to call; ``proxied`` calls are those that ``torch.export`` records; ``row_loops`` are functions of the user's functions (``map_fn``, ``scan``).
"""
