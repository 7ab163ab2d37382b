"""torch's autograd on what is recorded: ``engine`` calls it.

``grad_fields`` is ``.grad`` while tracing, ``optional_grads`` are None in some runs, ``outer_gradients`` go on to what was before a loop; ``determinants`` differentiate
twice, ``open_sizes`` are those of any number of items, ``broadcasts`` checks such sizes. Around a call: whether somebody is ``watching`` it, and torch's own ``transforms``, whose tensors are ``wrapped``:
there ``own_gradients`` are those of users, and ``one_by_one`` runs what cannot run for all examples at once.
"""
