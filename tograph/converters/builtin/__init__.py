"""The staged forms of built-ins, of ``math``, and of torch's functions on Python numbers and lists.

Importing the modules registers the forms: ``registry.handles`` maps a function to its form.
"""

from . import (
    decisions,
    deques,
    fused_optimizers,
    iteration,
    lbfgs,
    lobpcg,
    math_functions,
    messages,
    narrowing,
    numbers,
    objects,
    optional_gradients,
    outside_numbers,
    packed,
    printing,
    products,
    recurrent,
    reductions,
    sequences,
    torch_control_flow,
    torch_func,
    torch_functions,
)

__all__ = [
    "decisions",
    "deques",
    "fused_optimizers",
    "iteration",
    "lbfgs",
    "lobpcg",
    "math_functions",
    "messages",
    "narrowing",
    "numbers",
    "objects",
    "optional_gradients",
    "outside_numbers",
    "packed",
    "printing",
    "products",
    "recurrent",
    "reductions",
    "sequences",
    "torch_control_flow",
    "torch_func",
    "torch_functions",
]
