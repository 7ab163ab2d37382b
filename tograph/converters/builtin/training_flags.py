"""Functions of torch that compute otherwise while a module is trained: where only the run knows that (``if done: net.eval()``), the call is a branch."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import torch.nn.functional as F

from ...runtime.inference.shapes import SYMBOLS
from ..call_rules import DECIDING
from ..calls import call
from ..registry import BUILTINS, form_of

_FLAGS = dict.fromkeys(
    (F.dropout, F.alpha_dropout, F.dropout1d, F.dropout2d, F.dropout3d, F.feature_alpha_dropout, F.batch_norm, F.rrelu, F.multi_head_attention_forward),
    "training",
) | {F.instance_norm: "use_input_stats"}  # fmt: skip


def _chosen(flag, taken, other):
    return taken() if flag else other()


DECIDING.add(_chosen)


def _by_flag(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    signature, known = inspect.signature(function), form_of(function)

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        flag = _given(signature, name, args, kwargs)
        if not isinstance(flag, SYMBOLS):
            return known(*args, **kwargs) if known is not None else function(*args, **kwargs)
        bound = signature.bind(*args, **kwargs)
        ways = []
        for value in (True, False):
            bound.arguments[name] = value
            ways.append(functools.partial(call, function, *bound.args, **bound.kwargs))
        return call(_chosen, flag, *ways)

    return run


def _given(signature: inspect.Signature, name: str, args: Any, kwargs: Any) -> Any:
    try:
        return signature.bind(*args, **kwargs).arguments.get(name)
    except TypeError:  # the function says it
        return None


for _function, _name in _FLAGS.items():
    BUILTINS[_function] = _by_flag(_function, _name)
