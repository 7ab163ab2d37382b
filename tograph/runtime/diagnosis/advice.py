"""What to change: advice by the kind of an exception and the words of its message.

``RULES`` is searched in order; the first rule that fits speaks. Errors of ``tg.errors`` say in their own message what
to do, so most rules are for what PyTorch and Python raise.
"""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from ...errors import TographError
from .found import describe


class Rule(NamedTuple):
    """``advice``: a text, or a function of (match, error, values of the names in the expression)."""

    kinds: tuple[type[BaseException], ...]
    pattern: str
    advice: str | Callable[[re.Match, BaseException, dict[str, Any]], str]


def advice_on(error: BaseException, values: dict[str, Any]) -> str:
    """What to change, or an empty string when nothing better than the message is known."""
    if isinstance(error, TographError):
        return ""  # its message says it
    if _through_compiler(error):
        return _COMPILERS
    text = str(error)
    for rule in RULES:
        if isinstance(error, rule.kinds):
            match = re.search(rule.pattern, text)
            if match is not None:
                return (
                    rule.advice
                    if isinstance(rule.advice, str)
                    else rule.advice(match, error, values)
                )
    return ""


def _through_compiler(error: BaseException) -> bool:
    """Whether an exception came out of another compiler of torch, which the user's code called."""
    trace, caller = error.__traceback__, ""
    while trace is not None:
        name = trace.tb_frame.f_globals.get("__name__", "")
        if caller in _CALLERS and name.startswith(_COMPILING):
            return True
        trace, caller = trace.tb_next, name
    return False


_CALLERS = (
    "tograph.converters.calls",
    "tograph.converters.left_alone",
    "tograph.converters.construction",
    "tograph.runtime.guarding.unconverted",
)
_COMPILING = (
    "torch._dynamo.eval_frame",
    "torch.jit._trace",
    "torch.jit._script",
    "torch.fx._symbolic_trace",
)


def _similar(name: str, known: Any) -> str:
    close = difflib.get_close_matches(name, sorted(map(str, known)), n=1, cutoff=0.7)
    return f"did you mean {close[0]!r}?" if close else ""


def _attribute(match: re.Match, error: BaseException, values: dict[str, Any]) -> str:
    owner, name = getattr(error, "obj", None), match["name"]
    if owner is None and match["module"]:
        owner = sys.modules.get(match["module"])
    if owner is None:
        found = [v for v in values.values() if type(v).__name__ == match["owner"]]
        owner = found[0] if found else None
    similar = _similar(name, dir(owner)) if owner is not None else ""
    if owner is None and match["owner"] == "NoneType":
        return "the value is None here: give it a value before, or test for None"
    return similar


def _name(match: re.Match, error: BaseException, values: dict[str, Any]) -> str:
    trace, scope = error.__traceback__, {}
    while trace is not None:
        scope = {**trace.tb_frame.f_globals, **trace.tb_frame.f_locals}
        trace = trace.tb_next
    return _similar(match["name"], scope) or (
        f"define {match['name']!r} before the function is called, or pass it as an argument"
    )


def _key(match: re.Match, error: BaseException, values: dict[str, Any]) -> str:
    key = error.args[0] if error.args else None
    if isinstance(key, torch.Tensor):
        return (
            "a tensor is no key: two tensors are the same key only if they are one object. Write int(...) around it, "
            "or index a tensor instead of a dict"
        )
    for name, value in values.items():
        if issubclass(type(value), dict):  # one of the graph has no keys that are known
            return _similar(str(key), value) or f"{name!r} is a {describe(value)}".replace(
                "a empty", "an empty"
            )
    return "test it with `in` first, or use get()"


_BROADCAST = (
    "compared from the last dimension, the sizes of the two tensors must be equal or 1: change one of them with "
    "reshape, unsqueeze or expand"
)
_MATMUL = (
    "the last size of the first must equal the first size of the second: transpose one of them (.T, .mT), or change "
    "in_features of the layer to the last size of its input"
)
_DTYPE = "convert one of them first, for example with .to(other.dtype) or .float()"
_SCALAR = "take one element (x[i]) or reduce it (.sum(), .any(), .all()); for elementwise functions use torch's, not math's"
_INDEX = "valid indices are -size to size - 1; check where the index comes from"
_COMPILERS = (
    "torch.compile, torch.jit and torch.fx cannot run inside a tg.function: call the plain function, it becomes part of "
    "the graph"
)

RULES: list[Rule] = [
    Rule((AttributeError,), r"'Tensor' object has no attribute 'astype'", "arrays of numpy among the arguments are tensors in a function: write .to(dtype)"),
    Rule((RuntimeError,), r"SymInt::SymInt.*is_int", "a float that only the run knows stands where torch takes a whole number: write int(...) around it"),
    Rule((RuntimeError,), r"size of tensor a .* must match the size of tensor b", _BROADCAST),
    Rule((RuntimeError,), r"shape mismatch: objects cannot be broadcast|not broadcastable", _BROADCAST),
    Rule((RuntimeError,), r"\(\d+x\d+x\d+ and \d+x\d+x\d+\)|batch1 and batch2|Expected size for first two dimensions",
         "batches multiply as (b, n, k) by (b, k, m): transpose the last two sizes of one of them (.mT)"),
    Rule((RuntimeError,), r"mat1 and mat2 shapes|size mismatch, got|inconsistent tensor size", _MATMUL),
    Rule((RuntimeError,), r"Number of dimensions of tensors must match|same number of dimensions: got",
         "torch.cat joins tensors of equal rank along a dimension that exists: add one with unsqueeze(0), or use torch.stack"),
    Rule((RuntimeError,), r"Sizes of tensors must match except in dimension", "all sizes but that of the joined dimension must be equal: check dim="),
    Rule((RuntimeError,), r"stack expects each tensor to be equal size", "pad the tensors to one size, or join them with torch.cat"),
    Rule((RuntimeError,), r"target dtype to be Long|expected scalar type Long", "class labels are integers: convert them with .long()"),
    Rule((RuntimeError,), r"to have the same dtype|dtype mismatch|expected scalar type|must have the same dtype", _DTYPE),
    Rule((RuntimeError,), r"one of the following scalar types: Long", "indices are integers: convert them with .long()"),
    Rule((RuntimeError,), r"must be either a floating point or complex|only Tensors of floating point", "convert it first, with .float()"),
    Rule((RuntimeError,), r"[Ii]nvalid channel dimensions|expected input.* to have \d+ channels", "dimension 1 of the input must be the number of channels of the weight (its size 1 times groups)"),
    Rule((TypeError,), r"received an invalid combination of arguments", "the signatures are listed above: a keyword or a type differs from them"),
    Rule((RuntimeError,), r"can't be cast to the desired output type",
         "an in-place operation keeps the dtype of its left side: write `n = n + x`, or make the left side a floating tensor"),
    Rule((IndexError,), r"Target \S+ is out of bounds", "labels must be from 0 to the number of classes - 1, which is the size of dimension 1 of the logits"),
    Rule((IndexError,), r"out of bounds|out of range for tensor|list index out of range|tuple index out of range|index out of range", _INDEX),
    Rule((IndexError,), r"Dimension out of range", "dim counts from 0, or from -1 backwards; the tensor has fewer dimensions"),
    Rule((IndexError,), r"tensors used as indices must be", "convert the index with .long() or int(...)"),
    Rule((RuntimeError, ValueError), r"cannot be converted to Scalar|only one element tensors can be converted", _SCALAR),
    Rule((RuntimeError,), r"shape '.*' is invalid for input of size", "the product of the new sizes must be the number of elements; one size may be -1"),
    Rule((RuntimeError,), r"does not require grad and does not have a grad_fn",
         "no input of the function requires grad: pass tensors with requires_grad=True, or use parameters or tg.Variable"),
    Rule((RuntimeError,), r"appears to not have been used in the graph", "the output does not depend on that tensor; differentiate by one that it is computed from, or pass allow_unused=True"),
    Rule((RuntimeError,), r"leaf Variable that requires grad",
         "write under `with torch.no_grad():`, or compute a new tensor (`x = x + 1`)"),
    Rule((RuntimeError,), r"is not on the expected device|Expected all tensors to be on the same device", "move one of them first: .to(other.device)"),
    Rule((RuntimeError,), r"Dimension size must be non-negative|negative dimension", "the size is computed from data and came out below 0: clamp it, or check it with an assert"),
    Rule((TypeError,), r"iteration over a 0-d tensor", "a scalar has no elements; to count to it, write `for i in range(n)`, to loop over one item reshape(1)"),
    Rule((TypeError,), r"len\(\) of a 0-d tensor", "len requires a non-scalar tensor: its length is the size of its first dimension"),
    Rule((ValueError,), r"(not enough|too many) values to unpack", "the number of names must be that of the items; a tensor unpacks along its first dimension"),
    Rule((TypeError,), r"'NoneType' object is not (subscriptable|iterable)|non-iterable NoneType|'NoneType' object does not support",
         "the value is None here: a path gives it no value, or a function returns nothing. Give it one before, or test `is None` first"),
    Rule((TypeError,), r"'NoneType' object is not callable|for .*'NoneType'|'NoneType' and|and 'NoneType'", "the value is None here: give it a value before, or test `is None` first"),
    Rule((TypeError,), r"can only concatenate str|must be str, not Tensor", "put the tensor into an f-string: f\"value: {x}\""),
    Rule((TypeError,), r"must be Tensor, not", "make it a tensor (torch.tensor(...)) or a number"),
    Rule((TypeError,), r"Concatenation operation is not implemented for NumPy arrays|numpy", "NumPy arrays and tensors do not mix in place: make the array a tensor with torch.from_numpy before"),
    Rule((TypeError,), r"does not support item assignment", "a tuple cannot change: use a list, or build a new tuple"),
    Rule((TypeError,), r"missing \d+ required|takes .* positional arguments? but|unexpected keyword argument", "compare the call with the function's parameters"),
    Rule((TypeError,), r"unhashable type", "only hashable values can be keys or members of a set: use a tuple instead of a list"),
    Rule((AttributeError,), r"(?:'(?P<owner>\w+)' object|module '(?P<module>\w+)') has no attribute '(?P<name>\w+)'", _attribute),
    Rule((NameError,), r"cannot access (?:local|free) variable|referenced before assignment",
         "give the variable a value on every path before this line: before the `if` or loop, or in the other branch"),
    Rule((NameError,), r"name '(?P<name>\w+)' is not defined", _name),
    Rule((KeyError,), r"", _key),
    Rule((RuntimeError,), r"^ZeroDivisionError", "an element of the divisor came out as 0: test it first, or divide floating tensors, which give inf"),
    Rule((TypeError,), r"is not JSON serializable", "the value is known only when the graph runs: return it, and write it outside of the function"),
    Rule((TypeError,), r"only integer tensors of a single element can be converted to an index", "convert it first, with int(...) or .long()"),
    Rule((ZeroDivisionError,), r"", "the divisor came out as 0: test it first, or use tensors, which give inf"),
    Rule((RecursionError,), r"",
         "no call in this recursion returned: give it an end that Python can decide. One whose end depends on a tensor is taken where the call is "
         "the last thing that the function does (`return f(...)`), else write it as a while loop, with a list as a stack if needed. "
         "Hundreds of branches in each other (`elif`) need a thread with a larger stack, or a list that is looked up"),
    Rule((RuntimeError,), r"(dictionary|Set) changed size during iteration|dictionary keys changed", "go over a copy: `for x in list(...)`"),
    Rule((RuntimeError,), r"doesn't match the broadcast shape", "an in-place operation keeps the shape of its left side: write `y = y + x`"),
    Rule((RuntimeError,), r"grad can be implicitly created only for scalar outputs", "reduce it first (.sum(), .mean()), or pass a gradient of its shape"),
    Rule((RuntimeError,), r"modified by an inplace operation", "compute a new tensor (`y = y + 1`), or write a clone"),
    Rule((IndexError,), r"pop from (an )?empty", "test its length first: `if xs:`"),
    Rule((ValueError,), r"(arg|iterable argument) is (an )?empty|empty (sequence|iterable)", "give a default, or test the length first"),
    Rule((ValueError,), r"not in (list|tuple|deque)", "test it with `in` first"),
    Rule((ValueError, OverflowError), r"^math (domain|range) error|expected a (positive|nonnegative) input", "check the argument first, or use torch's function, which gives nan or inf"),
    Rule((ValueError,), r"range\(\) arg 3 must not be zero", "the step came out as 0: check it before the loop"),
    Rule((ValueError,), r"Unknown format code", "convert the value first: int(x) or float(x)"),
]  # fmt: skip
