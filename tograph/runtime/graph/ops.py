"""The op table: what every op of a graph means.

A row (``Op``) is complete: its reference (what it does to run-time values), its effects, its gradient
and its kernel cell. ``NONE`` in a cell is a statement ("no gradient", "no kernel"), not an omission.

Names. ``aten.add.Tensor`` is an ATen overload; its row is made from the schema, so any ATen op can be
recorded. ``py.add`` works on Python numbers with Python's own meaning. ``tg.*`` are effects, lists,
optionals and constants. ``If``, ``While``, ``Case``, ``Call`` and ``Try`` hold graphs and are run by
the interpreter and the scheduler; their effects are derived from those graphs.

Run-time values: a tensor, a Python number (``ScalarType``), a tuple of tensors (``ListType``), a
one- or zero-element tuple (``OptionalType``) or any object (``ObjectType``).

Effects are separate facts, so that each pass asks only the one it needs:
``random`` draws from torch's generator; ``io`` is seen outside; ``may_fail`` can raise, so writes after
it wait; ``diverges``: a loop that may not end; ``reads`` and ``writes`` are the positions of arguments whose
resource is read or written in place. An op with none is pure. Three more columns limit what passes do with pure
ops: ``foldable`` (running it early, once, gives the same), ``mergeable`` (two equal ones may be one), and
``overwrites``, the positions of values that the op destroys: its output takes their storage over.
``Op.aliases`` tells whether an output may share storage with an argument, or the op may keep an argument.
"""

from __future__ import annotations

import builtins
import functools
import math
import operator
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import BuiltinMethodType
from typing import Any

import torch

from ...errors import (  # fmt: skip
    AssertionFailed,
    GradientError,
    InvalidArgumentError,
    NoGradientError,
    NoIterationError,
    OutOfRangeError,
    StagingError,
    StructureError,
    TographError,
    UnexpectedSizeError,
    refused,
)
from . import collectives, outside, prints
from .arranged import arranged, in_format_of, is_arranged
from .item_errors import in_words_of_indexing
from .types import ObjectType, ScalarType, TensorType, parse_type

NONE = "none"
REPLAY = "replay"  # the gradient is torch's own: replay the op with autograd on
REGION_OPS = ("If", "While", "Case", "Call", "Try")
REQUIRED_REGIONS = {"If": ("then", "orelse"), "While": ("cond", "body")}
# Ops that compute nothing, but take values from one place to another: in Python that is no op, so they are recorded as if
# gradients were on also where they are off. So are ops with regions: what is computed in these knows for itself.
MOVES = frozenset(
    ["tg.choose", "tg.identity", "tg.read", "tg.written"]
    + [f"tg.list_{n}" for n in ("new", "of", "push", "pop", "insert", "get", "set", "slice", "extend", "reserve")]
    + [f"tg.optional_{n}" for n in ("some", "none", "get")]
)  # fmt: skip


@dataclass(frozen=True)
class Effects:
    """What an op does besides computing its outputs."""

    random: bool = False
    io: bool = False
    may_fail: bool = False
    reads: tuple[int, ...] = ()
    writes: tuple[int, ...] = ()
    diverges: bool = False
    foldable: bool = True
    mergeable: bool = True
    overwrites: tuple[int, ...] = ()

    @property
    def pure(self) -> bool:
        return self.removable and not self.reads

    @property
    def removable(self) -> bool:
        """Whether the op may go when nothing uses its outputs."""
        return not (self.random or self.io or self.may_fail or self.writes or self.diverges)

    def __or__(self, other: Effects) -> Effects:
        if other is PURE or other is self or other == self:
            return self
        if self is PURE:
            return other
        return Effects(
            self.random or other.random,
            self.io or other.io,
            self.may_fail or other.may_fail,
            self.reads + other.reads,
            self.writes + other.writes,
            self.diverges or other.diverges,
            self.foldable and other.foldable,
            self.mergeable and other.mergeable,
            self.overwrites + other.overwrites,
        )

    def at(self, place: Callable[[tuple[int, ...]], tuple[int, ...]]) -> Effects:
        """The same effects with ``place`` applied to every tuple of positions."""
        if not (self.reads or self.writes or self.overwrites):
            return self
        found = (self.reads, self.writes, self.overwrites)
        return self.with_places(*(place(p) if p else () for p in found))

    def with_places(
        self, reads: tuple[int, ...], writes: tuple[int, ...], overwrites: tuple[int, ...]
    ) -> Effects:
        """The same effects on inputs at other positions: ``dataclasses.replace`` takes thrice as long."""
        return Effects(self.random, self.io, self.may_fail, reads, writes, self.diverges,
                       self.foldable, self.mergeable, overwrites)  # fmt: skip


PURE, MAY_FAIL, IO = Effects(), Effects(may_fail=True), Effects(io=True)
MAY_COMMIT = IO  # changes Python objects of the caller, in order with all that is seen outside


@dataclass(frozen=True)
class Op:
    """One row of the table. ``run`` takes run-time values and returns one value or a tuple."""

    name: str
    run: Callable[..., Any]
    effects: Effects
    gradient: str
    kernel: str
    outputs: int = 1
    aliases: bool = True

    @functools.cached_property
    def by_arguments(self) -> bool:
        """Whether its arguments decide if it may fail."""
        return divides(self.name) or self.name in TO_INTEGER or self.name in FAILS_BY_VALUE

    @functools.cached_property
    def failing(self) -> Effects:
        """The effects where the arguments let it fail."""
        return self.effects | MAY_FAIL

    @functools.cached_property
    def sure(self) -> Effects:
        """The effects where they do not."""
        return replace(self.effects, may_fail=False)


_TABLE: dict[str, Op] = {}


def register(
    name: str, *, run, effects: Effects, gradient: str, kernel: str, outputs=1, aliases=True
) -> None:
    """Add a row; a second row of the same name is an error."""
    if name in _TABLE:
        raise KeyError(f"two rows for {name}")
    _TABLE[name] = Op(name, run, effects, gradient, kernel, outputs, aliases)


def lookup(name: str) -> Op:
    """The row of an op; KeyError when there is none."""
    row = _TABLE.get(name)
    if row is None:
        if not name.startswith(("aten.", "op.")):
            raise KeyError(f"no such op: {name}")
        row = _TABLE[name] = _torch_row(name)
    return row


def exists(name: str) -> bool:
    """Whether ``lookup`` would find a row."""
    try:
        lookup(name)
    except (KeyError, AttributeError):
        return False
    return True


# Ops that fail only by the value of one argument: known while tracing when it is constant.
FAILS_BY_VALUE = {"aten.select.int": 2, "aten.select_scatter.default": 3, "py.truediv": 1, "py.floordiv": 1, "py.mod": 1,
                  "py.range_length": 2}  # fmt: skip


# ---- ATen: rows from schemas

# Ops whose arguments decide, at run time, whether they fail.
_MAY_FAIL = frozenset((
    "index", "gather", "index_select", "embedding", "take", "take_along_dim", "scatter", "scatter_add", "index_put",
    "index_add", "index_copy", "index_fill", "nll_loss_forward", "nll_loss2d_forward", "bincount", "one_hot",
    "multinomial", "linalg_cholesky_ex", "cholesky", "linalg_inv_ex", "linalg_solve_ex", "_linalg_solve_ex",
    "linalg_lu_factor_ex", "masked_scatter", "repeat_interleave", "_assert_async", "_cdist_forward", "put",
    "scatter_reduce", "index_reduce", "binary_cross_entropy", "_linalg_check_errors", "_linalg_eigh", "linalg_eig",
    "_linalg_svd", "linalg_lstsq", "_embedding_bag", "embedding_bag", "_ctc_loss", "histc"
))  # fmt: skip
# Draws whose arguments hold probabilities or the like; those that take a number know it while tracing.
_FAILING_DRAWS = frozenset(("aten.bernoulli.default", "aten.binomial.default", "aten.poisson.default", "aten.normal.Tensor_float", "aten.normal.float_Tensor",
                            "aten.normal.Tensor_Tensor"))  # fmt: skip
# Ops that fail when they divide an integer by zero; "div" does so with a rounding mode.
_DIVISIONS = frozenset(("floor_divide", "remainder", "fmod", "div"))
# Ops whose result is whatever the memory held.
# Ops that take a size or a type from a tensor, and whose result requires no grad in torch.
_UNRELATED = frozenset(
    [f"{n}_like" for n in ("zeros", "ones", "full", "empty", "rand", "randn", "randint")]
    + [f"new_{n}" for n in ("zeros", "ones", "full", "empty", "empty_strided")]
    + ["histc"]
)
_COLLECTIVE = frozenset(
    ["_c10d_functional", "_c10d_functional_autograd", "_dtensor"]
)  # the ranks of a group wait for each other
_UNINITIALISED = frozenset(("empty", "empty_like", "new_empty", "empty_strided", "new_empty_strided"))  # fmt: skip


@functools.cache
def takes_size(name: str) -> bool:
    """Whether an op looks at the size and type of its first argument, and not at its content."""
    base = name.removeprefix("aten.").partition(".")[0]
    return name == "py.size" or (base in _UNRELATED and base != "histc")


@functools.cache
def divides(name: str) -> bool:
    """Whether an op fails when all it is given is integers and its second argument holds a zero."""
    base, _, variant = name.removeprefix("aten.").partition(".")
    return base in _DIVISIONS and (base != "div" or variant.endswith("_mode"))


def overload_name(func: torch._ops.OpOverload) -> str:
    """The table's name of a torch overload: ``aten.add.Tensor``, or ``op.ns.name.overload`` for other libraries."""
    text = str(func)
    return text if text.startswith("aten.") else "op." + text


@functools.cache
def overload(name: str) -> torch._ops.OpOverload:
    """The torch overload that a table name stands for."""
    parts = name.removeprefix("op.").split(".")
    found = torch.ops
    for part in parts:
        found = getattr(found, part)
    return found


def overload_packet(name: str) -> Any:
    """All overloads of a torch op, or None when there is no such op."""
    found: Any = torch.ops
    for part in name.removeprefix("op.").split("."):
        found = getattr(found, part, None)
    return found


def _torch_row(name: str) -> Op:
    func = overload(name)
    base = func._schema.name.split("::")[-1]
    defined = base not in _UNINITIALISED
    effects = Effects(
        random=torch.Tag.nondeterministic_seeded in func.tags,
        may_fail=base in _MAY_FAIL or name in _FAILING_DRAWS,
        foldable=defined,
        mergeable=defined,
    )
    if func.namespace in _COLLECTIVE:
        effects |= IO | MAY_FAIL
    count = len(func._schema.returns)
    gradient = NONE if base in _UNRELATED else REPLAY
    return Op(name, _reference(name, func), effects, gradient, NONE, count, _may_alias(func))


def _may_alias(func) -> bool:
    """Whether an output may share storage with an argument: by the schema, or where torch decides at run time."""
    if any(r.alias_info is not None for r in func._schema.returns):
        return True
    try:
        if func.has_kernel_for_dispatch_key(torch._C.DispatchKey.CompositeImplicitAutograd):
            return True
    except RuntimeError:  # an op of TorchScript's own, which the dispatcher does not know
        return True
    return func._schema.name == "aten::_unsafe_view"


def _reference(name: str, func) -> Callable[..., Any]:
    """``func``, but a view of a value that nobody writes to may as well be a copy: strides never fail."""
    if name in ("aten.view.default", "aten._unsafe_view.default"):
        return torch.reshape
    if name == "aten.copy.default":
        return _copy
    if name == "aten.mkldnn_rnn_layer.default":
        return _keeping_workspace(func)
    if name == "aten.rrelu_with_noise_functional.default":
        return _leaking
    if is_arranged(name):
        return lambda *args, **kwargs: func(*arranged(name, args), **kwargs)
    if any(a.name == "generator" for a in func._schema.arguments):
        return lambda *args, **kwargs: func(
            *map(plain, args), **{k: plain(v) for k, v in kwargs.items()}
        )
    return func


def _keeping_workspace(func) -> Callable[..., Any]:
    """``func`` with what its gradient needs, which torch's kernel gives only where gradients are on; a graph runs where they are off."""

    def run(*args):
        if torch.is_grad_enabled():
            return func(*args)
        with torch.enable_grad(), torch._C._AutoDispatchBelowAutograd():
            return func(*args)

    return run


def _leaking(x, noise, *args, **kwargs):
    """torch's formula for the gradient of the functional form takes the noise as it was before the draw."""
    noise = noise.clone()
    return torch.ops.aten.rrelu_with_noise(x, noise, *args, **kwargs), noise


def _copy(target, source, non_blocking=False):
    return torch.empty_like(target).copy_(source)


# ---- Python numbers: Python's own operators are the reference

ARITHMETIC = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "lshift", "rshift", "and_", "or_", "xor")  # fmt: skip
COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne")
_UNARY = {"neg": operator.neg, "pos": operator.pos, "abs": abs, "invert": operator.invert, "not": operator.not_,
          "int": int, "float": float, "bool": bool, "trunc": math.trunc, "ceil": math.ceil, "floor": math.floor,
          "str": str}  # fmt: skip
_BINARY = {n: getattr(operator, n) for n in (*ARITHMETIC, *COMPARISONS)}
_BINARY |= {"min": min, "max": max}
PYTHON = {**_UNARY, **_BINARY}
TO_INTEGER = frozenset(["py.int", "py.trunc", "py.ceil", "py.floor"])
_FAILING = frozenset(
    [
        "truediv",
        "floordiv",
        "mod",
        "pow",
        "int",
        "float",
        "lshift",
        "rshift",
        "trunc",
        "ceil",
        "floor",
    ]
)


def _number(function):
    """Apply to numbers; a tensor among the arguments counts as the number it holds."""

    def run(*args):
        return function(*(a.item() if isinstance(a, torch.Tensor) else a for a in args))

    return run


for _name, _function in PYTHON.items():
    _effects = MAY_FAIL if _name in _FAILING else PURE
    register(f"py.{_name}", run=_number(_function), effects=_effects, gradient=NONE, kernel=NONE)
for _name in ["sqrt", "sin", "cos", "tan", "exp", "log", "log2", "log10", "tanh", "sinh", "cosh", "asin", "acos", "atan", "atan2", "fabs", "floor", "ceil", "trunc", "isnan", "isinf", "isfinite", "hypot", "pow", "fmod", "copysign", "log1p", "expm1", "erf", "gamma", "lgamma", "degrees", "radians", "isqrt", "gcd", "comb", "factorial", "perm", "lcm", "ldexp", "exp2", "cbrt", "asinh", "acosh", "atanh", "erfc", "remainder", "nextafter", "ulp"]:  # fmt: skip
    register(
        f"py.math.{_name}",
        run=_number(getattr(math, _name)),
        effects=MAY_FAIL,
        gradient=NONE,
        kernel=NONE,
    )
for _name in ("bit_length", "bit_count"):
    register(
        f"py.{_name}",
        run=_number(getattr(int, _name)),
        effects=PURE,
        gradient=NONE,
        kernel=NONE,
    )


def _math_of(name, part, *args):
    """A function of ``math`` that gives several numbers, of which one is taken, or that takes sequences."""
    found = getattr(math, name)(*args)
    return found if part is None else found[part]


register("py.ratio_part", run=lambda x, part: x.as_integer_ratio()[part], effects=MAY_FAIL, gradient=NONE, kernel=NONE)  # fmt: skip
register("py.pow_mod", run=pow, effects=MAY_FAIL, gradient=NONE, kernel=NONE)
register("py.math_of", run=_math_of, effects=MAY_FAIL, gradient=NONE, kernel=NONE)


def _round(x, digits=None):
    return round(x) if digits is None else round(x, digits)


def _format(*parts) -> str:
    """The text of an f-string: strings as they are, triples (value, conversion, spec) formatted."""
    out = []
    for part in parts:
        if isinstance(part, str):
            out.append(part)
            continue
        value, conversion, spec = part
        value = plain(value)
        if conversion:
            value = {"r": repr, "s": str, "a": ascii}[conversion](value)
        out.append(format(value, spec if isinstance(spec, str) else _format(*spec)))
    return "".join(out)


def _error_text(error):
    """The one text that an exception was made with."""
    if len(error.args) != 1 or not isinstance(error.args[0], str):
        raise StagingError(
            f"e.args of an exception that happens when the graph runs is taken to be one text; here it is {error.args!r}. Use str(e)"
        )
    return error.args[0]


def _text(name, text, *args):
    """A method of ``str``, ``text[a:b:c]`` by the name ``slice``, or a built-in of a string."""
    if name == "slice":
        return text[slice(*args)]
    function = _OF_TEXTS.get(name)
    return getattr(str, name)(text, *args) if function is None else function(text, *args)


def _str_format(text, args, names, values):
    return text.format(*map(plain, args), **dict(zip(names, map(plain, values))))


def _percent(text, values):
    return text % (tuple(map(plain, values)) if isinstance(values, tuple) else plain(values))


_OF_TEXTS: dict[str, Any] = {"list": list, "ord": ord, "int": int, "float": float}


def _size(x, dim):
    return x.size(dim)


def _select_scatter(x, row, path, d, n):
    part = x = x.clone()
    for at, index in path:
        part = part.select(at, index)
    part.select(d, n).copy_(row)
    return x


def _kept(p, dtype, size, device):
    return torch.native_dropout(torch.ones(size, dtype=dtype, device=device), p, True)[1]


# Of a tensor whose size a run knows.
register("py.truth", run=bool, effects=MAY_FAIL, gradient=NONE, kernel=NONE)
register("py.type", run=type, effects=PURE, gradient=NONE, kernel=NONE)
register("py.type_name", run=lambda x: type(x).__name__, effects=PURE, gradient=NONE, kernel=NONE)
register("py.round", run=_number(_round), effects=MAY_FAIL, gradient=NONE, kernel=NONE)
register("py.select", run=lambda c, a, b: a if c else b, effects=PURE, gradient=NONE, kernel=NONE)
register(
    "tg.choose", run=lambda tag, options: options[tag], effects=PURE, gradient=REPLAY, kernel=NONE
)
# Complex tensors as two real ones, in native code: a part, one of two parts, and what is no view of an argument.
register("tg.part", run=lambda x, k: torch.view_as_real(x)[..., k], effects=PURE, gradient=NONE, kernel=NONE)  # fmt: skip
register("tg.complex", run=torch.complex, effects=PURE, gradient=NONE, kernel=NONE)
register("tg.fresh", run=lambda x: x, effects=PURE, gradient=NONE, kernel=NONE)
# Where dropout with a chance of ``p`` keeps an element of a tensor of some type, in plans for GPUs.
register("tg.kept", run=_kept, effects=Effects(random=True), gradient=NONE, kernel=NONE)
# ``x`` with an item of a part of it replaced, in plans for GPUs.
register("tg.select_scatter", run=_select_scatter, effects=MAY_FAIL, gradient=NONE, kernel=NONE)
# ``x.select(d, n)`` for a number ``n`` of the run, in plans for GPUs that have shown that it is inside.
register("tg.item", run=lambda x, d, n: x.select(d, n), effects=PURE, gradient=NONE, kernel=NONE)
# The same where native code has to decline if it is a view of an argument.
register("tg.arranged", run=in_format_of, effects=PURE, gradient=NONE, kernel=NONE)
register("tg.apart", run=lambda x: x, effects=PURE, gradient=NONE, kernel=NONE)
register(
    "py.isinstance",
    run=lambda x, kinds: isinstance(x, plain(kinds)),
    effects=PURE,
    gradient=NONE,
    kernel=NONE,
)
register("py.error_text", run=_error_text, effects=MAY_FAIL, gradient=NONE, kernel=NONE)
register("py.str_format", run=_str_format,
         effects=MAY_FAIL, gradient=NONE, kernel=NONE)  # fmt: skip
register(
    "py.percent",
    run=_percent,
    effects=MAY_FAIL,
    gradient=NONE,
    kernel=NONE,
)
register("py.size", run=_size, effects=PURE, gradient=NONE, kernel=NONE)
register("py.rank", run=lambda x: x.dim(), effects=PURE, gradient=NONE, kernel=NONE)
register("py.dict_view", run=lambda d, kind: getattr(d, kind)(), effects=PURE, gradient=NONE, kernel=NONE)  # fmt: skip
register("py.format", run=_format, effects=PURE, gradient=NONE, kernel=NONE)
register(
    "py.text",
    run=_text,
    effects=MAY_FAIL,
    gradient=NONE,
    kernel=NONE,
)
register("py.apply", run=lambda f, *a: f(*a), effects=MAY_FAIL, gradient=NONE, kernel=NONE)


def _range_length(start, stop, step):
    """How many numbers ``range(start, stop, step)`` has; ValueError for a step of zero, as range says."""
    return len(range(*(int(v) for v in (start, stop, step))))


register("py.range_length", run=_range_length, effects=MAY_FAIL, gradient=NONE, kernel=NONE)


def _position(i, n):
    """The place of an item in ``n`` items, negative ones counted from the end; OutOfRangeError where there is none."""
    if not -n <= i < n:
        raise OutOfRangeError(f"list index out of range: index {i}, size {n}")
    return i % n


def _cell(i, n):
    """As ``position``, of indices from 0 on only."""
    if not 0 <= i < n:
        raise OutOfRangeError(f"index {i} is out of range for size {n}")
    return i


def _room(i, n):
    """``i``, the place of a new item where there is room for ``n``."""
    if i >= n:
        raise OutOfRangeError(f"a list of more than {n} items")
    return i


def _slice_stop(stop, n):
    """How many of ``n`` items ``[:stop]`` has."""
    return slice(None, stop).indices(n)[1]


register("py.position", run=_position, effects=MAY_FAIL, gradient=NONE, kernel=NONE)
register("py.cell", run=_cell, effects=MAY_FAIL, gradient=NONE, kernel=NONE)
register("py.room", run=_room, effects=MAY_FAIL, gradient=NONE, kernel=NONE)
register("py.slice_stop", run=_slice_stop, effects=PURE, gradient=NONE, kernel=NONE)


# ---- effects on the outside


_LABEL = re.compile(r"[<>\n\r]")  # what the text of a graph could not read back


class OpaqueObject:
    """A Python object inside a graph's arguments, such as a file or a callback. Shown as ``<py label>``."""

    __slots__ = ("label", "value")

    def __init__(self, value: Any, label: str):
        self.value, self.label = value, label

    def __repr__(self) -> str:
        return f"<py {_LABEL.sub('', self.label)}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OpaqueObject) and other.label == self.label

    def __hash__(self) -> int:
        return hash(self.label)


def plain(value: Any) -> Any:
    """``value`` with opaque objects opened."""
    return value.value if isinstance(value, OpaqueObject) else value


register(
    "py.apply_opaque",
    run=lambda f, *a: plain(f)(*map(plain, a)),
    effects=Effects(foldable=False, mergeable=False),
    gradient=NONE,
    kernel=NONE,
)


def _print(*values, sep=None, end=None, file=None, flush=False):
    file = None if file is None else plain(file)
    prints.show(*map(plain, values), sep=sep, end=end, file=file, flush=flush)


def bare_exception(cls: type[BaseException], args: tuple) -> BaseException:
    """An exception with its arguments, without a run of the user's ``__new__`` and ``__init__``."""
    own = (c.__dict__.get("__new__") for c in cls.__mro__)
    made = next(new for new in own if isinstance(new, BuiltinMethodType))(cls, *args)
    made.args = args
    return made


def make_exception(kind: Any, args: tuple) -> BaseException:
    """An exception of a built-in type by name, or a copy of a template exception with new arguments."""
    if isinstance(kind, str):
        if kind in _CHECKS:
            return _CHECKS[kind](*args)
        found = getattr(builtins, kind)
        if not (isinstance(found, type) and issubclass(found, BaseException)):
            raise TographError(f"not a built-in exception: {kind!r}")
        return found(*args)
    template = kind.value
    made = bare_exception(type(template), args)
    made.__dict__.update(template.__dict__)
    made.__cause__ = template.__cause__
    made.__suppress_context__ = template.__suppress_context__
    return made


def _raise(kind, args, found=(), fields=(), **cause):
    """``found``: pairs of a name and its value, which a note shows; ``fields``: attributes; ``cause``: what follows ``from``."""
    error = make_exception(kind, tuple(plain(a) for a in args))
    error.__dict__.update(fields)
    if found:
        error.add_note("\n".join(f"where {name} is {_short(x)}" for name, x in found))
    if cause:
        raise error from cause["cause"]
    raise error


def _short(x: Any) -> str:
    if isinstance(x, torch.Tensor) and x.numel() > 16:
        return f"a {x.dtype} tensor of shape {list(x.shape)}"
    return str(x)


def _reraise(error, **cause):
    if cause:
        raise error from plain(cause["cause"])
    raise error


def catching(kinds: tuple[type, ...]) -> tuple[type, ...]:
    """The classes of a handler that take the exception which is raised now.

    What tograph refuses is no exception of the program: only a handler that names a class of ``tg.errors`` takes it.
    """
    error = sys.exc_info()[1]
    in_words_of_indexing(error)
    return tuple(k for k in kinds if issubclass(k, TographError)) if refused(error) else kinds


def _caught():
    """The exception that the handler around is for."""
    return sys.exc_info()[1]


_CHECKS = {
    f"tg.{c.__name__}": c
    for c in (
        StagingError,
        GradientError,
        NoGradientError,
        NoIterationError,
        UnexpectedSizeError,
        InvalidArgumentError,
        OutOfRangeError,
    )
}


def _assert(condition, kind, args, data=None):
    if isinstance(condition, torch.Tensor) and condition.numel() != 1:
        condition = bool(condition.all())
    if condition:
        return
    if kind == "tg.AssertionFailed":
        text = " ".join(map(str, args)) or "assertion failed"
        raise AssertionFailed(text)
    _raise(kind, args)


def _python_call(function, args, count):
    return plain(function)(*args)


register("tg.print", run=_print, effects=IO, gradient=NONE, kernel=NONE, outputs=0, aliases=False)
# Seeds and states of torch's generators: the default one, or the last argument.
for _name, _run, _outputs in [
    ("manual_seed", lambda seed, g=torch: plain(g).manual_seed(seed), 0),
    ("initial_seed", lambda g=torch: plain(g).initial_seed(), 1),
    ("new_seed", lambda g=torch: plain(g).seed(), 1),
    ("rng_state", lambda g=torch.default_generator: plain(g).get_state(), 1),
    ("set_rng_state", lambda state, g=torch.default_generator: plain(g).set_state(state), 0),
]:
    register(f"tg.{_name}", run=_run, effects=Effects(random=True), gradient=NONE, kernel=NONE, outputs=_outputs)  # fmt: skip
register("tg.raise", run=_raise, effects=MAY_FAIL, gradient=NONE, kernel=NONE, outputs=0)
register("tg.reraise", run=_reraise, effects=MAY_FAIL, gradient=NONE, kernel=NONE, outputs=0)
register("tg.caught", run=_caught, effects=Effects(io=True), gradient=NONE, kernel=NONE)
register("tg.assert", run=_assert, effects=MAY_FAIL, gradient=NONE, kernel=NONE, outputs=0)
register(
    "tg.py_call",
    run=_python_call,
    effects=Effects(io=True, may_fail=True),
    gradient=REPLAY,
    kernel=NONE,
)
# Ranks of a process group that tell each other something: see ``collectives``.
for _name, _run, _outputs in [
    ("collective", collectives.run, 2),
    ("post", collectives.post, 1),
    ("arrived", collectives.arrived, 2),
]:
    register(f"tg.{_name}", run=_run, effects=IO | MAY_FAIL, gradient=NONE, kernel=NONE, outputs=_outputs, aliases=False)  # fmt: skip
# The graph of a function that calls itself; what it reads from around it, None for a call by itself.
register(
    "tg.recursion",
    run=lambda callee, args, captured: plain(callee)(args, captured),
    effects=Effects(io=True, may_fail=True, random=True),
    gradient=REPLAY,
    kernel=NONE,
)
# A Python number that another call gives another time: what a random generator or a clock says.
register(
    "py.outside",
    run=lambda f, *args: outside.ask(plain(f), *args),
    effects=Effects(io=True, may_fail=True),
    gradient=NONE,
    kernel=NONE,
)
# One of several results; the call's own inputs say what it depends on.
register(
    "tg.py_item",
    run=lambda results, i, inputs: results[i],
    effects=PURE,
    gradient=REPLAY,
    kernel=NONE,
)
# A tensor of the CPU whose content is on another device, as what the host does sees it.
register("tg.on_cpu", run=lambda x: x.cpu(), effects=PURE, gradient=NONE, kernel=NONE)


# ---- fused regions


def _kernel(fused, *inputs):
    """A region that runs as one kernel: its outputs, a list where there are several."""
    return plain(fused)(*inputs)


register("tg.kernel", run=_kernel, effects=PURE, gradient=NONE, kernel=NONE, outputs=2)


# ---- constants and captured tensors


def _constant(data, dtype, device):
    return torch.tensor(data, dtype=dtype, device=device)


def _read(x):
    """A snapshot of a captured tensor."""
    return x.clone()


def _assign(x, value):
    """Where autograd watches the run, the tensor gets the history of the value, as in eager PyTorch; a leaf stays one."""
    if torch.is_grad_enabled() and value.requires_grad and not (x.is_leaf and x.requires_grad):
        x.copy_(value)
        return
    with torch.no_grad():
        x.copy_(value)


def _written(old, new):
    """The content ``new`` with the history of ``old``: what a write that autograd does not see makes of a tensor."""
    if not torch.is_grad_enabled() or not getattr(old, "requires_grad", False):
        return new.detach() if getattr(new, "requires_grad", False) else new
    made = old.clone()
    with torch.no_grad():
        made.copy_(new)
    return made


def _random_fill(name, size, stride, dtype, device, *args, **kwargs):
    """Memory of these strides, filled by an in-place random op: the strides decide where each draw goes."""
    target = torch.empty_strided(size, stride, dtype=dtype, device=device)
    return overload(name)(target, *map(plain, args), **{k: plain(v) for k, v in kwargs.items()})


register("tg.random_fill", run=_random_fill, effects=Effects(random=True), gradient=REPLAY, kernel=NONE)  # fmt: skip
register("py.constant", run=lambda v: v, effects=PURE, gradient=NONE, kernel=NONE)
register("tg.constant", run=_constant, effects=PURE, gradient=NONE, kernel=NONE, aliases=False)


def _earlier(past, given, outside, leaves):
    raise NotImplementedError("a gradient through earlier iterations outside of a loop")


def _leads(loop, place, outside):
    raise NotImplementedError("what state was computed from, outside of a loop")


def _wrote_earlier(x):
    raise NotImplementedError("whether earlier iterations wrote, outside of a loop")


# Only while a loop is recorded: see ``histories`` and ``loop_histories``.
register("tg.wrote_earlier", run=_wrote_earlier, effects=PURE, gradient=NONE, kernel=NONE)
register("tg.leads", run=_leads, effects=PURE, gradient=NONE, kernel=NONE)
register("tg.earlier", run=_earlier, effects=PURE, gradient=REPLAY, kernel=NONE, outputs=2)
# No gradient passes what is ``freed``: see the module of that name.
register("tg.identity", run=lambda x, freed=False: x, effects=PURE, gradient=REPLAY, kernel=NONE)
register("tg.written", run=_written, effects=PURE, gradient=REPLAY, kernel=NONE)
register(
    "tg.read",
    run=_read,
    effects=Effects(reads=(0,)),
    gradient=REPLAY,
    kernel=NONE,
    aliases=False,
)
register(
    "tg.assign", run=_assign, effects=Effects(writes=(0,)), gradient=NONE, kernel=NONE, outputs=0
)


# ---- the state of a try body


class ProgressCell:
    """What the variables of a ``try`` body held before the op that may have failed: a number and values."""

    def __init__(self) -> None:
        self.tag, self.values = 0, []


def _cell_set(cell, tag, values):
    cell.tag, cell.values = tag, values


def _cell_get(cell, tag, index, kind):
    """A value of the setting ``tag``; where another one was the last, a value that nobody reads."""
    if cell.tag == tag and tag:
        return cell.values[index]
    return zero_of(parse_type(kind))


def zero_of(kind):
    """Some value of a type."""
    if isinstance(kind, ScalarType):
        return kind.kind(0)
    if isinstance(kind, TensorType):
        return torch.zeros([n or 0 for n in kind.shape], dtype=kind.dtype, device=kind.device)
    return None if isinstance(kind, ObjectType) else ()


register("tg.cell_new", run=ProgressCell, effects=IO, gradient=NONE, kernel=NONE)
register("tg.cell_set", run=_cell_set, effects=IO, gradient=NONE, kernel=NONE, outputs=0)
register("tg.cell_tag", run=lambda cell: cell.tag, effects=IO, gradient=NONE, kernel=NONE)
register("tg.cell_get", run=_cell_get, effects=IO, gradient=NONE, kernel=NONE)


# ---- lists and optionals: values, never changed in place


def list_index(items, i):
    """An index as a position from the start; OutOfRangeError outside of the list."""
    n = len(items)
    i = int(i)
    if not -n <= i < n:
        raise OutOfRangeError(f"list index out of range: index {i}, size {n}")
    return i % n


def _list_set(items, i, v):
    i = list_index(items, i)
    return (*items[:i], v, *items[i + 1 :])


def _list_pop(items, i):
    if not items:
        raise IndexError("pop from empty list")
    if not -len(items) <= int(i) < len(items):
        raise IndexError("pop index out of range")
    i = int(i) % len(items)
    return items[:i] + items[i + 1 :], items[i]


def _list_insert(items, i, v):
    out = list(items)
    out.insert(int(i), v)
    return tuple(out)


def _as_tensor(v, dtype=None):
    return v if isinstance(v, torch.Tensor) else torch.tensor(v, dtype=dtype)


def _list_stack(items, dtype, shape, device):
    if not items:
        return torch.empty((0, *(shape or ())), dtype=dtype, device=device)
    items = _cells(
        items, dtype, shape, device
    )  # cotangents of arrays have cells that are not written
    return torch.stack([_as_tensor(v, dtype) for v in items])


def _list_concat(items, dtype, shape, device):
    if not items:
        return torch.empty((0, *(shape or ())), dtype=dtype, device=device)
    return torch.cat(list(items))


def _list_get(items, i):
    return items[list_index(items, i)]


def _list_slice(items, start, stop, step):
    return items[slice(start, stop, step)]


def array_index(i, limit):
    """The position of a cell to write; OutOfRangeError outside of an array of fixed size ``limit``."""
    i = int(i)
    if i < 0 or (limit is not None and i >= limit):
        raise OutOfRangeError(f"index {i} is out of range for a TensorArray of size {limit}")
    return i


def _array_write(items, i, v, limit):
    """Write a cell of a TensorArray; cells between the old end and ``i`` stay unwritten (None)."""
    i = array_index(i, limit)
    items = (*items, *(None,) * (i + 1 - len(items)))
    return (*items[:i], v, *items[i + 1 :])


def _array_read(items, i, dtype, shape, device):
    i = int(i)
    if not 0 <= i < len(items):
        raise OutOfRangeError(f"index {i} is out of range for a TensorArray of size {len(items)}")
    return _cells(items, dtype, shape, device)[i]


def _cells(items, dtype, shape, device):
    """The cells with unwritten ones as zeros."""
    if any(v is None for v in items):
        if shape is None or None in shape:
            shape = next((tuple(v.shape) for v in items if v is not None), None)
        if shape is None:
            raise StructureError("an unwritten cell of a TensorArray needs element_shape")
        zero = torch.zeros(shape, dtype=dtype, device=device)
        items = tuple(zero if v is None else v for v in items)
    return items


def _array_concat(items, dtype, shape, device):
    return _list_concat(_cells(items, dtype, shape, device), dtype, shape and shape[1:], device)


def _list_split(x, lengths):
    lengths = [int(n) for n in (lengths.tolist() if isinstance(lengths, torch.Tensor) else lengths)]
    return tuple(torch.split(x, lengths))


def _optional_get(optional):
    if not optional:
        raise InvalidArgumentError("Optional has no value: test has_value() before get_value()")
    return optional[0]


def _handle_add(a, b):
    """The sum of two cotangents of one list or optional; an unwritten cell (None) counts as zeros."""
    if a is None or b is None:
        return b if a is None else a
    if isinstance(a, (tuple, list)):
        return tuple(_handle_add(x, y) for x, y in zip(a, b))
    return a + b


def _handle_zeros(x):
    """The zero cotangent of a list or optional: zeros that take no memory."""
    if isinstance(x, (tuple, list)):
        return tuple(map(_handle_zeros, x))
    if isinstance(x, torch.Tensor):
        return torch.zeros((), dtype=x.dtype, device=x.device).expand(x.shape)
    return x


def _handle_any(x):
    """Whether a number in a cotangent of a list or optional is not zero."""
    if isinstance(x, (tuple, list)):
        return any(map(_handle_any, x))
    return x is not None and bool(torch.as_tensor(x != 0).any())


def _list_spread(items, start, stop, step, values):
    """``items`` with ``values`` as its slice."""
    out = list(items)
    out[slice(start, stop, step)] = values
    return tuple(out)


def _list_split_like(x, items):
    """``x`` cut along its first dimension as ``torch.cat(items)`` put it together."""
    return tuple(torch.split(x, [v.shape[0] for v in items])) if items else ()


for _name, _run, _effects, _outputs in [
    ("handle_add", _handle_add, PURE, 1),
    ("handle_zeros", _handle_zeros, PURE, 1),
    ("handle_any", _handle_any, PURE, 1),
    ("list_spread", _list_spread, PURE, 1),
    ("list_split_like", _list_split_like, PURE, 1),
    ("list_new", lambda: (), PURE, 1),
    ("list_of", lambda *v: v, PURE, 1),
    ("list_push", lambda items, v: (*items, v), PURE, 1),
    ("list_pop", _list_pop, MAY_FAIL, 2),
    ("list_insert", _list_insert, PURE, 1),
    ("list_get", _list_get, MAY_FAIL, 1),
    ("list_set", _list_set, MAY_FAIL, 1),
    ("list_slice", _list_slice, PURE, 1),
    ("list_size", len, PURE, 1),
    ("list_extend", lambda a, b: (*a, *b), PURE, 1),
    ("list_stack", _list_stack, MAY_FAIL, 1),
    ("list_concat", _list_concat, MAY_FAIL, 1),
    ("list_split", _list_split, MAY_FAIL, 1),
    ("list_from_tensor", lambda x: tuple(x.unbind(0)), PURE, 1),
    ("list_reserve", lambda n: (None,) * int(n), PURE, 1),
    ("array_write", _array_write, MAY_FAIL, 1),
    ("array_read", _array_read, MAY_FAIL, 1),
    ("array_stack", _list_stack, MAY_FAIL, 1),
    ("array_concat", _array_concat, MAY_FAIL, 1),
    ("optional_some", lambda v: (v,), PURE, 1),
    ("optional_none", lambda: (), PURE, 1),
    ("optional_has", bool, PURE, 1),
    ("optional_get", _optional_get, MAY_FAIL, 1),
]:
    _copies = _name.endswith(("_stack", "_concat"))
    register(f"tg.{_name}", run=_run, effects=_effects, gradient=REPLAY, kernel=NONE, outputs=_outputs,
             aliases=not _copies)  # fmt: skip

# ATen overloads whose torch.* function takes the same arguments in the same order: it costs 0.6 us less to call.
DIRECT = {
    f"aten.{n}": function for n in ["add.Tensor", "sub.Tensor", "mul.Tensor", "div.Tensor", "mm.default", "bmm.default", "addmm.default", "mv.default", "dot.default", "sin.default", "cos.default", "exp.default", "log.default", "tanh.default", "sqrt.default", "rsqrt.default", "sigmoid.default", "relu.default", "abs.default", "neg.default", "reciprocal.default", "erf.default", "floor.default", "ceil.default", "round.default", "sign.default", "gt.Tensor", "lt.Tensor", "ge.Tensor", "le.Tensor", "eq.Tensor", "ne.Tensor", "gt.Scalar", "lt.Scalar", "ge.Scalar", "le.Scalar", "eq.Scalar", "ne.Scalar", "where.self", "logical_and.default", "logical_or.default", "logical_not.default", "bitwise_and.Tensor", "bitwise_or.Tensor", "bitwise_not.default", "maximum.default", "minimum.default", "sum.default", "sum.dim_IntList", "mean.default", "mean.dim", "amax.default", "amin.default", "any.default", "all.default", "argmax.default", "select.int", "t.default", "transpose.int", "permute.default", "unsqueeze.default", "squeeze.dim", "squeeze.default", "cat.default", "stack.default", "index_select.default", "gather.default", "clone.default", "pow.Tensor_Scalar", "pow.Tensor_Tensor", "remainder.Scalar", "remainder.Tensor", "floor_divide.default", "cumsum.default", "select_scatter.default", "slice_scatter.default", "zeros_like.default", "ones_like.default", "rsub.Scalar", "rand.default", "randn.default", "rand_like.default", "randn_like.default", "randint.low", "randint.default", "randperm.default", "bernoulli.default", "multinomial.default", "topk.default", "sort.default", "roll.default", "flip.default", "clamp.default", "scatter.src", "scatter.value", "scatter_add.default", "index_add.default", "searchsorted.Tensor", "convolution.default", "masked_fill.Scalar", "nonzero.default", "bucketize.Tensor", "scalar_tensor.default"]
    if (function := getattr(torch, n.split(".")[0], None)) is not None
}  # fmt: skip

_TENSOR, _NN, _PRIVATE = torch._C.TensorBase, torch._C._nn, torch._C._VariableFunctions
DIRECT |= {
    "aten.view.default": torch.reshape, "aten.expand.default": _TENSOR.expand, "aten._softmax.default": _PRIVATE._softmax,
    "aten._log_softmax.default": _PRIVATE._log_softmax, "aten.native_layer_norm.default": _PRIVATE.native_layer_norm,
    "aten._fft_r2c.default": _PRIVATE._fft_r2c, "aten._fft_c2r.default": _PRIVATE._fft_c2r, "aten._fft_c2c.default": _PRIVATE._fft_c2c,
    "aten.embedding.default": _PRIVATE.embedding, "aten.gelu.default": _NN.gelu, "aten.silu.default": _NN.silu,
    "aten.native_batch_norm.default": _PRIVATE.native_batch_norm,
}  # fmt: skip

_C: Any = torch._C  # its stubs leave out some of these
_BINDINGS = [("", _C._VariableFunctions), ("special_", _C._special), ("linalg_", _C._linalg), ("fft_", _C._fft), ("", _C._nn)]  # fmt: skip


@functools.cache
def quick(name: str) -> Callable[..., Any] | None:
    """A function of torch's that takes what an ATen overload takes, where there is one; it costs 1 to 3 us less to call.

    Beside those of ``DIRECT``: the binding of an op that has one overload only. It may refuse arguments (TypeError).
    """
    if name in DIRECT:
        return DIRECT[name]
    if is_arranged(name):
        return None
    packet = overload_packet(name.rsplit(".", 1)[0]) if name.startswith("aten.") else None
    if packet is None or [o for o in packet.overloads() if "out" not in o] != [name.rsplit(".", 1)[1]]:  # fmt: skip
        return None
    given = getattr(packet, name.rsplit(".", 1)[1])._schema.arguments
    if any(a.name == "reduction" and a.has_default_value() for a in given):
        return None  # the bindings read the default of a loss, ``Mean``, as 0: none
    base = name.split(".")[1]
    found = (getattr(home, base, None) for prefix, home in _BINDINGS if base.startswith(prefix))
    return next((f for f in found if f is not None), None)
