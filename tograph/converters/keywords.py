"""Calls with ``**items``. Python merges them with other keywords in front of the call: an argument that is given twice is an error of the function called.

::

    f(x, **items)        ->  ag__.call_spread(f, x, **ag__.spread(items))
    f(x, a=y, **items)   ->  ag__.call_keywords(f, (x,), ('a', y), (None, ag__.spread(items)))

The operators are those of ``spread``.
"""

from __future__ import annotations

from ..transpiler.syntax import gast
from ..transpiler.templates import constant
from .context import OPERATORS, Converter


def with_keywords(pass_: Converter, node):
    """A call, the parts of which are rewritten."""
    for k in node.keywords:
        if k.arg is None:
            k.value = pass_.expression(f"{OPERATORS}.spread(items_)", k.value, items_=k.value)
    if len(node.keywords) == 1:
        made = pass_.expression(f"{OPERATORS}.call_spread(f_)", node, f_=node.func)
        made.args += node.args
        made.keywords = node.keywords
        return made
    given = gast.Tuple(node.args, gast.Load())
    text = f"{OPERATORS}.call_keywords(f_, args_)"
    made = pass_.expression(text, node, f_=node.func, args_=given)
    for k in node.keywords:
        made.args.append(pass_.expression("(name_, x_)", k.value, name_=constant(k.arg), x_=k.value))  # fmt: skip
    return made
