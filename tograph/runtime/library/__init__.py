"""Functions that users call, or torch's in other words, while a function is traced.

* Gradients: ``grads`` (``backward``, ``torch.autograd.grad``; ``accumulated``: the fields of leaves, which are ``laid_out`` as these), by what is ``beside`` them, ``outer_histories`` (what arguments were computed from), ``hooks``, ``required`` (``requires_grad`` in a run), which ``leaf_flags`` set, ``leaf_writes`` that torch refuses, ``rising`` orders, the user's own (``custom``, ``autograd_functions``, of code that is not converted ``unconverted_functions``).
* Control flow as functions: ``higher_order``. ``effects``: print, py_function, stop_gradient. ``recursive_calls``: graphs that call themselves. ``debug``: limits and assertions. ``staged_string``: text that the run makes.
  ``random_states``: seeds and states of torch's generators.
* Functions of torch that ask for sizes as plain numbers: ``narrowing``, ``open_forms``.
"""
