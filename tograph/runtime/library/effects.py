"""Effects that users name: ``tg.print``, ``tg.py_function``, ``tg.stop_gradient``, ``tg.init_scope``."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from ...errors import SignatureError
from ..control_flow import outside_value
from ..graph import prints, types
from ..graph.ops import OpaqueObject
from ..graph.types import TensorType
from ..guarding import reads
from ..recording.tracing import suspended
from ..symbols.funcgraph import current_graph, is_tracing, user_location
from ..symbols.misuse import check_callable
from ..values.flattening import symbolic
from ..values.keys import autocast_dtypes, autocast_to
from ..values.specs import TensorSpec


def print_(*values: Any, sep: str = " ", end: str = "\n", file: Any = None) -> None:
    """Print when the graph runs, each time it runs, in program order.

    Example: ``tg.print("loss", loss)``
    """
    if not is_tracing():
        print(*values, sep=sep, end=end, file=file)
        return
    graph = current_graph()
    args = tuple(outside_value(v, graph) for v in values)
    kwargs: dict[str, Any] = {}
    if sep != " ":
        kwargs["sep"] = sep
    if end != "\n":
        kwargs["end"] = end
    file = prints.stream(file, reads.is_outside(file))
    if file is not None:
        kwargs["file"] = OpaqueObject(file, "file")
    graph.add("tg.print", args, kwargs)


print_.__name__ = print_.__qualname__ = "print"  # in messages about its arguments


def py_function(fn: Callable[..., Any], inputs: Sequence[Any], out_spec: Any) -> Any:
    """Call Python code on real values when the graph runs, in program order with other effects.

    ``inputs``: tensors or numbers. ``out_spec``: a ``TensorSpec``, a list of them, or None when nothing is returned.

    Example: ``y = tg.py_function(scipy_solve, [a, b], tg.TensorSpec([3], torch.float64))``
    """
    check_callable(fn, "py_function", "fn")
    specs = _out_specs(out_spec)
    if not isinstance(inputs, (list, tuple)):
        raise SignatureError(
            f"'inputs' of py_function must be a list of tensors and numbers, not a {type(inputs).__name__}: write [x] for one",
            user_location(),
        )
    if not is_tracing():
        return _checked(fn, specs, isinstance(out_spec, (list, tuple)))(*inputs)
    graph = current_graph()
    kinds = [TensorType(s.dtype, s.shape or (), str(s.device)) for s in specs]
    run = _checked(fn if not any(autocast_dtypes()) else _casting(fn), specs, False)
    call = OpaqueObject(run, getattr(fn, "__qualname__", type(fn).__name__))
    args = [outside_value(x, graph) for x in inputs]
    first: tuple[Any, ...] = tuple(kinds) if len(kinds) == 1 else (types.OBJECT,)
    made = graph.add("tg.py_call", (call, args, len(kinds)), None, first).outputs[0]
    if not kinds:
        return None
    if len(kinds) == 1:
        return symbolic(made, graph)
    outs = [graph.emit("tg.py_item", made, i, args, type=k) for i, k in enumerate(kinds)]
    return [symbolic(v, graph) for v in outs]


def _out_specs(out_spec: Any) -> list[TensorSpec]:
    if out_spec is None:
        return []
    specs = list(out_spec) if isinstance(out_spec, (list, tuple)) else [out_spec]
    for spec in specs:
        if not isinstance(spec, TensorSpec):
            raise SignatureError(
                f"'out_spec' of py_function must be a tg.TensorSpec, a list of them, or None, not {spec!r}",
                user_location(),
            )
    return specs


def _casting(fn: Callable[..., Any]) -> Callable[..., Any]:
    """``fn`` under the ``torch.autocast`` that is open where the trace calls it: a graph runs with none."""
    dtypes = autocast_dtypes()

    @functools.wraps(fn)
    def call(*args: Any) -> Any:
        with autocast_to(dtypes):
            return fn(*args)

    return call


def _checked(fn: Callable[..., Any], specs: list[TensorSpec], many: bool) -> Callable[..., Any]:
    """``fn`` with its results made tensors of the promised type."""

    def call(*args: Any) -> Any:
        result = fn(*args)
        if not specs:
            return None
        results = list(result) if len(specs) > 1 or many else [result]
        if len(results) != len(specs):
            raise TypeError(f"the py_function returned {len(results)} values, not {len(specs)}")
        out = []
        for value, spec in zip(results, specs):
            value = value if isinstance(value, torch.Tensor) else _as_tensor(fn, value, spec)
            if not spec.accepts(value):
                raise TypeError(
                    f"the py_function {getattr(fn, '__name__', fn)!r} returned a {value.dtype} tensor of shape "
                    f"{tuple(value.shape)}, not {spec}"
                )
            out.append(value)
        return out if len(specs) > 1 or many else out[0]

    return call


def _as_tensor(fn: Callable[..., Any], value: Any, spec: TensorSpec) -> torch.Tensor:
    try:
        return torch.as_tensor(value, dtype=spec.dtype)
    except (TypeError, ValueError) as error:
        name = getattr(fn, "__name__", fn)
        raise TypeError(
            f"the py_function {name!r} returned {value!r}, which is no tensor, instead of {spec}"
        ) from error


def stop_gradient(x: Any) -> Any:
    """``x`` as a constant for differentiation.

    Example: ``loss = (prediction - tg.stop_gradient(target)).square().mean()``
    """
    return x.detach() if isinstance(x, torch.Tensor) else x


@contextmanager
def init_scope():
    """Run the code inside once, while tracing, outside of the graph and on real values.

    Example: ``with tg.init_scope(): table = torch.arange(10)``
    """
    if not is_tracing():
        yield
        return
    with suspended():
        yield
