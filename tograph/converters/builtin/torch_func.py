"""``torch.func.grad``, ``vjp``, ``jvp``, ``linearize``, ``jacrev``, ``jacfwd`` and ``hessian`` inside of a function.

torch's own transforms wrap tensors, which hides staged control flow from them. While tracing, autograd does their work: the
differentiated arguments become tensors of their own, so a closure over the same tensor is a constant as in torch.func,
and the results are functions of what is differentiated around them: transforms nest, and gradients of the graph go through.
``jvp`` is the derivative of the vector-Jacobian product by its vector, which is linear in it: J t = d/du (u' J) t.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from ...runtime.functions import row_loops
from ...runtime.gradients import transforms
from ...runtime.inference.shapes import SYMBOLS
from ...runtime.library import accumulated, grads
from ...runtime.symbols.funcgraph import is_tracing
from ...runtime.symbols.symbolic import as_symbolic
from ...runtime.writes import histories
from .. import union
from ..calls import call
from ..conversion import convert_if_needed
from ..registry import CLOSURES, handles, takes_functions
from .forward_histories import with_history
from .linear_maps import LinearMap


class _Primals:
    """Arguments of which some are differentiated: ``args`` to call with, ``leaves`` the tensors that stand for those."""

    def __init__(self, args: Sequence[Any], argnums: Sequence[int]):
        self.args, self.given = list(args), []
        self.leaves: list[Any] = []
        self.structures = []
        for i in argnums:
            flat, structure = pytree.tree_flatten(args[i])
            self.structures.append(structure)
            fresh = [_fresh(x) for x in flat]
            self.given += flat
            self.leaves += fresh
            self.args[i] = pytree.tree_unflatten(fresh, structure)

    def packed(self, found: Sequence[Any]) -> list[Any]:
        """One value for each leaf as the arguments were structured."""
        rest = iter(found)
        return [
            pytree.tree_unflatten([next(rest) for _ in range(s.num_leaves)], s)
            for s in self.structures
        ]

    def settled(self, tree: Any) -> Any:
        """Results without a history that leads to nothing but the leaves made here."""
        return pytree.tree_map(lambda x: x if self.outer([x]) else _plain(x), tree)

    def outer(self, results: Sequence[Any]) -> bool:
        """Whether something that is differentiated around this transform is in the history of results."""
        own = {id(x) for x in self.leaves if x.is_leaf}
        found = grads.leaves(
            [x for x in results if isinstance(x, torch.Tensor) and x.requires_grad]
        )
        return any(id(x) not in own for x in found)


def _fresh(x: Any) -> Any:
    """A tensor of its own to differentiate by; torch's errors, which a path that is not taken does not raise."""
    if not isinstance(x, torch.Tensor):
        kind = x.node.kind if isinstance(x, SYMBOLS) else type(x)
        raise ValueError(f"Thing passed to transform API must be Tensor, got {kind}")
    if not (x.is_floating_point() or x.is_complex()):
        raise RuntimeError("only Tensors of floating point dtype can require gradients")
    with torch.enable_grad():  # a captured tensor is real here, and has its history itself
        return histories.alias(x) if x.requires_grad else _begun(as_symbolic(x))


def _begun(x: torch.Tensor) -> torch.Tensor:
    """A tensor of the same value that autograd differentiates by: no leaf of the code's, which is why what is computed of ``x`` itself requires no gradient."""
    made: Any = torch.Tensor.requires_grad_(accumulated.own(x))
    made.token_ = None
    return made


def _called(f: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """What a function gives that is differentiated: it may not take gradients of leaves itself, as under torch's own transforms."""
    with grads.transforming():
        return call(f, *args, **kwargs)


def _plain(x: Any) -> Any:
    return accumulated.own(x) if isinstance(x, torch.Tensor) and x.requires_grad else x


def _pulled(
    outs: Sequence[Any], cotangents: Sequence[Any], leaves: Sequence[Any], create: bool
) -> list[Any]:
    """The vector-Jacobian product; zeros where nothing depends on a leaf."""
    pairs = [(o, c) for o, c in zip(outs, cotangents) if o.requires_grad]
    found: Sequence[Any] = [None] * len(leaves)
    if pairs:
        outs, cotangents = zip(*pairs)
        found = grads.engine(outs, cotangents, leaves, True, create, True)
    return [torch.zeros_like(x) if g is None else g for g, x in zip(found, leaves)]


def _tensors(out: Any, name: str) -> tuple[list[Any], Any]:
    flat, structure = pytree.tree_flatten(out)
    if not all(isinstance(x, torch.Tensor) for x in flat):
        raise RuntimeError(f"{name}(f, ...): Expected f to return only tensors")
    return flat, structure


def _numbers(argnums: Any, count: int) -> tuple[list[int], bool]:
    several = isinstance(argnums, tuple)
    return [i % count for i in (argnums if several else (argnums,))], several


# ---- the transforms


def grad_and_value(f: Callable[..., Any], argnums: Any = 0, has_aux: bool = False) -> Any:
    def transformed(*args: Any, **kwargs: Any) -> Any:
        numbers, several = _numbers(argnums, len(args))
        primals = _Primals(args, numbers)
        with torch.enable_grad():
            out = _called(f, *primals.args, **kwargs)
            out, aux = out if has_aux else (out, None)
            if not isinstance(out, torch.Tensor) or out.dim():
                raise RuntimeError(
                    "grad_and_value(f)(*args): Expected f(*args) to return a scalar tensor, got "
                    + (
                        f"tensor with {out.dim()} dims"
                        if isinstance(out, torch.Tensor)
                        else f"{type(out)}"
                    )
                )
            found = _pulled([out], [torch.ones_like(out)], primals.leaves, primals.outer([out]))
        found = primals.packed(primals.settled(found))
        value = primals.settled((out, aux)) if has_aux else primals.settled(out)
        return tuple(found) if several else found[0], value

    return transformed


def grad(f: Callable[..., Any], argnums: Any = 0, has_aux: bool = False) -> Any:
    both = grad_and_value(f, argnums, has_aux)

    def transformed(*args: Any, **kwargs: Any) -> Any:
        found, value = both(*args, **kwargs)
        return (found, value[1]) if has_aux else found

    return transformed


def vjp(f: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    made = _Primals(primals, range(len(primals)))
    with torch.enable_grad():
        out = _called(f, *made.args)
    out, aux = out if has_aux else (out, None)
    outs, structure = _tensors(out, "vjp")

    def pull(*cotangents: Any, retain_graph: bool = True, create_graph: bool | None = None) -> Any:
        given = cotangents[0] if len(cotangents) == 1 else cotangents
        flat, found = pytree.tree_flatten(given)
        if found != structure:
            raise RuntimeError(
                f"Expected pytree structure of cotangents to be the same as pytree structure of outputs to the function. "
                f"cotangents: {found}, primal output: {structure}"
            )
        with torch.enable_grad():
            pulled = _pulled(outs, flat, made.leaves, made.outer([*outs, *flat]))
        return tuple(made.packed(made.settled(pulled)))

    results = made.settled(out), pull
    return (*results, made.settled(aux)) if has_aux else results


def jvp(
    f: Callable[..., Any],
    primals: Any,
    tangents: Any,
    *,
    strict: bool = False,
    has_aux: bool = False,
) -> Any:
    made = _Primals(primals, range(len(primals)))
    along = pytree.tree_leaves(tuple(tangents))
    with torch.enable_grad():
        out = _called(f, *made.args)
        out, aux = out if has_aux else (out, None)
        outs, structure = _tensors(out, "jvp")
        pushed = [made.settled(t) for t in _pushed(outs, made.leaves, along)]
    pushed = [with_history(t, o, made.leaves, made.given) for t, o in zip(pushed, outs)]
    results = made.settled(out), pytree.tree_unflatten(pushed, structure)
    return (*results, made.settled(aux)) if has_aux else results


def _pushed(outs: Sequence[Any], leaves: Sequence[Any], tangents: Sequence[Any]) -> list[Any]:
    vectors, pulled = _linear(outs, leaves)
    return _along(pulled, vectors, tangents)


def _linear(outs: Sequence[Any], leaves: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Vectors, and the vector-Jacobian products as functions of them."""
    vectors = [torch.Tensor.requires_grad_(torch.zeros_like(o)) for o in outs]
    return vectors, _pulled(outs, vectors, leaves, True)


def _along(pulled: Sequence[Any], vectors: Sequence[Any], tangents: Sequence[Any]) -> list[Any]:
    outer = [_plain(t) if not t.requires_grad else t for t in tangents]
    return _pulled(pulled, outer, vectors, True)


def linearize(f: Callable[..., Any], *primals: Any) -> Any:
    """As in torch ``f`` runs twice: for its result, and for the derivative."""
    value = call(f, *primals)
    made = _Primals(primals, range(len(primals)))
    wanted = pytree.tree_structure(primals)
    with torch.enable_grad():
        outs, structure = _tensors(_called(f, *made.args), "linearize")
        vectors, pulled = _linear(outs, made.leaves)
        derivative = LinearMap(lambda tangents: _along(pulled, vectors, tangents), made.leaves)

    def push(*tangents: Any) -> Any:
        flat, found = pytree.tree_flatten(tangents)
        if found != wanted:
            raise RuntimeError(
                f"Expected the tangents {found} to have the same argspec as the primals {wanted}"
            )
        for i, (t, x) in enumerate(zip(flat, made.leaves)):
            _check_tangent(i, t, x)
        with torch.enable_grad():
            pushed = derivative(flat)
        return made.settled(pytree.tree_unflatten(pushed, structure))

    return value, push


def _check_tangent(index: int, tangent: torch.Tensor, primal: torch.Tensor) -> None:
    """torch's errors for a tangent that is not like its primal."""
    for what in ("shape", "device", "dtype"):
        got, wanted = getattr(tangent, what), getattr(primal, what)
        if got != wanted:
            raise RuntimeError(
                f"tangent:{index} with {what} {got} in flattened pytree doesn't match the {what} {wanted} of the corresponding primal."
            )


def jacrev(
    f: Callable[..., Any], argnums: Any = 0, *, has_aux: bool = False, **options: Any
) -> Any:
    """A row for each element of the output: one product for all of them, or one after the other through staged constructs."""
    return _jacobian(f, argnums, has_aux, False)


def jacfwd(f: Callable[..., Any], argnums: Any = 0, has_aux: bool = False, **options: Any) -> Any:
    """The same, which requires a gradient where torch's does."""
    return _jacobian(f, argnums, has_aux, True)


def _jacobian(f: Callable[..., Any], argnums: Any, has_aux: bool, forward: bool) -> Any:
    def transformed(*args: Any) -> Any:
        numbers, several = _numbers(argnums, len(args))
        made = _Primals(args, numbers)

        def jacobian(out: Any) -> Any:
            out, aux = out if has_aux else (out, None)
            with torch.enable_grad():
                outs, structure = _tensors(out, "jacrev")
                found = [rows(o, made.leaves, made.outer([o])) for o in outs]
            found = [made.settled(r) for r in found]
            if forward:
                found = [[with_history(x, o, made.leaves, made.given) for x in r] for o, r in zip(outs, found)]  # fmt: skip
                found = [_as_columns(r, o, made.leaves) for o, r in zip(outs, found)]
            blocks = [made.packed(r) for r in found]
            packed = [tuple(b) if several else b[0] for b in blocks]
            given = pytree.tree_unflatten(packed, structure)
            return (given, made.settled(aux)) if has_aux else given

        with torch.enable_grad():
            out = _called(f, *made.args)
        return of_each(jacobian, out)

    return transformed


def _as_columns(blocks: Sequence[Any], out: Any, leaves: Sequence[Any]) -> Sequence[Any]:
    """The blocks of one output as they lie in memory in torch: parts of one tensor, in which each element of the primals has a derivative that lies as ``out`` does."""
    counts = [x.numel() for x in leaves]
    if any(type(n) is not int for n in (*counts, *out.shape)):
        return blocks
    flat = [b.reshape(*out.shape, n) for b, n in zip(blocks, counts)]
    joined = torch.cat(flat, -1) if len(flat) > 1 else flat[0]
    strides = out.stride()
    order = [out.dim(), *sorted(range(out.dim()), key=lambda d: -strides[d])]
    whole = joined.permute(order).contiguous()
    parts = whole.permute([order.index(d) for d in range(len(order))]).split(counts, -1)
    return [p.unflatten(-1, x.shape) if x.dim() else p.squeeze(-1) for p, x in zip(parts, leaves)]


def of_each(function: Callable[[Any], Any], out: Any) -> Any:
    """``function`` of a result of which parts may be of one or another shape, by a staged condition."""
    flat, structure = pytree.tree_flatten(out)
    return union.apply(lambda *xs: function(pytree.tree_unflatten(xs, structure)), *flat)


def rows(out: Any, leaves: Sequence[Any], create: bool) -> list[Any]:
    """The Jacobian of one output: output sizes, then those of the leaf."""
    flat = out.reshape(-1)
    units = torch.eye(flat.numel(), dtype=out.dtype, device=out.device)
    shapes = [(*out.shape, *x.shape) for x in leaves]
    if not out.requires_grad or (type(flat.numel()) is int and not flat.numel()):
        return [x.new_zeros(shape) for x, shape in zip(leaves, shapes)]
    if type(flat.numel()) is not int:  # as many rows as only the run knows
        cells = row_loops.map_fn(lambda unit: tuple(_pulled([flat], [unit], leaves, create)), units)  # fmt: skip
    elif grads.staged(out):
        found = [_pulled([flat], [unit], leaves, create) for unit in units.unbind(0)]
        cells = [torch.stack(column) for column in zip(*found)]
    else:
        cells = torch.vmap(lambda unit: tuple(_pulled([flat], [unit], leaves, create)))(units)
    return [x.reshape(shape) for x, shape in zip(cells, shapes)]


def hessian(f: Callable[..., Any], argnums: Any = 0) -> Any:
    return jacfwd(jacrev(f, argnums), argnums)


# ---- in place of torch's own

_OPTIONS = ("argnums", "has_aux")


def _sample(x: Any) -> Any:
    return x


def _makes_function(function: Any, form: Callable[..., Any]) -> None:
    def of_closure(made: Any) -> Any:
        """The staged form of what ``function`` gave outside of the function that is traced."""
        held = {n: c.cell_contents for n, c in zip(made.__code__.co_freevars, made.__closure__)}
        return run(held["func"], **{n: x for n, x in held.items() if n in _OPTIONS})

    CLOSURES.setdefault(
        function(_sample).__code__, of_closure
    )  # ``hessian`` gives one of ``jacfwd``

    @handles(function)
    def run(f: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        plain = function(convert_if_needed(f), *args, **kwargs)
        if not is_tracing():
            return plain
        staged = form(f, *args, **kwargs)

        def transformed(*args: Any, **kwargs: Any) -> Any:
            return (plain if transforms.active() else staged)(*args, **kwargs)

        return transformed


def _runs(function: Any, form: Callable[..., Any]) -> None:
    @handles(function)
    def run(f: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if is_tracing() and not transforms.active():
            return form(f, *args, **kwargs)
        return function(convert_if_needed(f), *args, **kwargs)


_makes_function(torch.func.grad, grad)
_makes_function(torch.func.grad_and_value, grad_and_value)
_makes_function(torch.func.jacrev, jacrev)
_makes_function(torch.func.jacfwd, jacfwd)
_makes_function(torch.func.hessian, hessian)
_runs(torch.func.vjp, vjp)
_runs(torch.func.jvp, jvp)
_runs(torch.func.linearize, linearize)
_functional = torch.autograd.functional
takes_functions(
    _functional.vjp,
    _functional.jvp,
    _functional.hvp,
    _functional.vhp,
)
