"""``torch.func.vmap`` inside of a function, over code with staged conditions, loops and numbers of the run.

torch's ``vmap`` wraps tensors, and a wrapped one cannot be part of a branch or loop body. So code is mapped by torch as long as it has none.
Where it has, what torch did is undone, and one example is traced as a graph of its own. A graph whose conditions are the same for all examples is
mapped op by op (``autodiff.batched``); any other runs in a loop over the examples, each with the branches and iterations of its own: nothing is computed
that its own code does not compute, so errors and derivatives are those of that code. Either way the code only computes: an effect on what is known
outside of it would happen once for torch, and once for each example here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from ...errors import MappedConditionError, StagingError, UnsupportedOpError
from ...runtime import control_flow
from ...runtime.control_flow.regions import Region, unmoved
from ...runtime.functions import row_loops
from ...runtime.gradients import transforms
from ...runtime.graph.families import ALTERNATIVES
from ...runtime.graph.ir import Graph, Node, Value, all_nodes
from ...runtime.graph.ordering import graph_effects, node_effects
from ...runtime.graph.rewrite import lead, passed
from ...runtime.inference.infer import tensor_type
from ...runtime.inference.shapes import SYMBOLS
from ...runtime.symbols.funcgraph import FuncGraph, is_tracing, user_location
from ...runtime.symbols.symbolic import as_symbolic, value_of
from ...runtime.values.flattening import symbolic
from ...runtime.writes import histories
from ..calls import call
from ..conversion import convert_if_needed
from ..registry import CLOSURES, handles

_functorch = torch._C._functorch
_ASKED = (
    "vmap: It looks like you're"  # torch's errors for a number or a condition of what is mapped
)


@handles(torch.func.vmap)
def vmap(
    func: Callable[..., Any],
    in_dims: Any = 0,
    out_dims: Any = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    mapped = _one_of_many(func, randomness) if is_tracing() else convert_if_needed(func)
    return torch.func.vmap(mapped, in_dims, out_dims, randomness, chunk_size=chunk_size)


def _of_closure(made: Any) -> Callable[..., Any]:
    """The same for what ``vmap`` gave outside of the function that is traced."""
    held = {n: c.cell_contents for n, c in zip(made.__code__.co_freevars, made.__closure__)}
    return vmap(held.pop("func"), **held)


CLOSURES[torch.func.vmap(lambda x: x).__code__] = _of_closure


def _one_of_many(f: Callable[..., Any], randomness: str) -> Callable[..., Any]:
    """``f`` as torch maps it: its arguments are what torch makes of many examples."""

    def run(*args: Any, **kwargs: Any) -> Any:
        if len(_functorch.get_interpreter_stack()) > 1:
            return call(f, *args, **kwargs)  # what torch cannot map, the outermost ``vmap`` sees to
        attempt = control_flow.Attempt(())
        try:
            result = call(f, *args, **kwargs)
        except BaseException as error:
            if not _needs_graph(error):
                attempt.commit()
                raise
        else:
            attempt.commit()
            return result
        attempt.undo()
        return _Examples(f, args, kwargs, randomness).results()

    run.__name__ = getattr(f, "__name__", type(f).__name__)  # in torch's errors
    return run


def _needs_graph(error: BaseException) -> bool:
    told = isinstance(error, RuntimeError) and str(error).startswith(_ASKED)
    return told or isinstance(error, MappedConditionError)


class _Examples:
    """The examples of the ``vmap`` that is open, and what a function gives for each."""

    def __init__(self, f: Callable[..., Any], args: tuple, kwargs: dict, randomness: str):
        self.f, self.randomness = f, randomness
        self.level = _functorch.peek_interpreter_stack().level()
        flat, self.form = pytree.tree_flatten((args, kwargs))
        self.mapped = [i for i, x in enumerate(flat) if transforms.is_mapped(x)]
        self.whole = list(map(self._rows, flat))
        self.given: Any = None  # the structure of the results
        self.written: list[int] = []  # which of those that are mapped are written in place

    def _rows(self, x: Any) -> Any:
        """All examples of an argument along the first dimension."""
        if not transforms.is_mapped(x):
            return x
        return _functorch.get_unwrapped(x).movedim(_functorch.maybe_get_bdim(x), 0)

    def results(self) -> Any:
        with transforms.suspended():
            region = self._traced()
            self._check(region)
            rows = [self.whole[i] for i in self.mapped]
            found, left = row_loops.map_fn(self._with_writes, rows)
            for k, x in zip(self.written, left):
                rows[k].copy_(x)
            graph = region.graph.graph
            same = [not d for d in _depends(graph, graph.inputs[: len(rows)])]
            found = [x[0] if one and x.shape[0] > 0 else x for x, one in zip(found, same)]
        outs = [x if one else _functorch._add_batch_dim(x, 0, self.level) for x, one in zip(found, same)]  # fmt: skip
        return pytree.tree_unflatten(outs, self.given)

    def _with_writes(self, rows: Sequence[Any]) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        """The results for one example, and what it leaves in the arguments that it writes: all are written at once, as torch does."""
        given = [x.clone() if k in self.written else x for k, x in enumerate(rows)]
        return self._of_one(given), [given[k] for k in self.written]

    def _of_one(self, rows: Sequence[Any]) -> list[torch.Tensor]:
        """The tensors that the function gives for one example."""
        flat = list(self.whole)
        for i, x in zip(self.mapped, rows):
            flat[i] = x
        args, kwargs = pytree.tree_unflatten(flat, self.form)
        found, self.given = pytree.tree_flatten(call(self.f, *args, **kwargs))
        for x in found:
            if not isinstance(x, torch.Tensor):
                kind = x.node.kind if isinstance(x, SYMBOLS) else type(x)
                name = getattr(self.f, "__name__", type(self.f).__name__)
                raise ValueError(
                    f"vmap({name}, ...): `{name}` must only return Tensors, got type {kind}. Did you mean to set out_dims= to None for output?"
                )
        return found

    def _traced(self) -> Region:
        """The function of one example, as a graph of its own."""
        rows: list[Any] = []

        def before(graph: FuncGraph) -> None:
            rows.extend(_placeholder(self.whole[i], graph) for i in self.mapped)

        def run() -> list[torch.Tensor]:
            found = self._of_one(rows)
            return found

        region = control_flow.trace_region("vmap", run, before, stage_errors=False)
        graph = region.graph
        outputs = [value_of(x, graph) for x in region.result]
        after = [value_of(x, graph) for x in rows]
        self.written = [k for k, v in enumerate(after) if v is not graph.graph.inputs[k]]
        control_flow.close(region.graph, list(region.graph.arguments), outputs, len(rows))
        return region

    def _check(self, region: Region) -> None:
        """The function must only compute."""
        changed = [p.name for p, x in region.changed.values() if not unmoved(p.get(), x)]
        if changed:
            names = ", ".join(f"'{name}'" for name in changed)
            raise _refused(f"changes {names}, which is known outside of it")
        graph = region.graph.graph
        effects = graph_effects(graph)
        if effects.writes or any(_is_seen(n) for n in all_nodes(graph)):
            raise _refused("prints, calls Python or writes a tensor from outside of it")
        if effects.random and self.randomness == "error":
            raise RuntimeError(
                "vmap: called random operation while in randomness error mode. Please either use the 'same' or 'different' randomness "
                "flags on vmap or perform the randomness operation out of vmap"
            )
        if effects.random and self.randomness == "same":
            raise _refused('draws random numbers under randomness="same"')


def _depends(graph: Graph, on: Iterable[Value]) -> list[bool]:
    """For each output, whether it may depend on one of these inputs."""
    known = set(on)
    for node in graph.nodes:
        if known.isdisjoint(node.inputs):
            continue
        if node.op not in ALTERNATIVES or not known.isdisjoint(node.args[: lead(node)]):
            known.update(node.outputs)
            continue
        places = [i for i, a in enumerate(passed(node)) if a in known]
        for region in node.regions.values():
            found = _depends(region, [region.inputs[i] for i in places])
            known.update(v for v, d in zip(node.outputs, found) if d)
    return [v in known for v in graph.outputs]


def _is_seen(node: Node) -> bool:
    """Whether a node does something that is seen outside."""
    return not node.regions and node.op not in _OF_TRY and node_effects(node).io


_OF_TRY = ("tg.caught", "tg.reraise", "tg.cell_new", "tg.cell_set", "tg.cell_tag", "tg.cell_get")


def _placeholder(whole: torch.Tensor, graph: FuncGraph) -> Any:
    """What stands for an example."""
    meta = as_symbolic(whole).meta
    row = meta._replace(size=tuple(meta.size[1:]), stride=tuple(meta.stride[1:]))
    made = symbolic(graph.input(tensor_type(row)), graph)
    if not whole.requires_grad:
        return made
    return histories.alias(torch.Tensor.requires_grad_(made))  # no leaf: it may be written in place


def _refused(what: str) -> StagingError:
    return UnsupportedOpError(
        f"a function with staged conditions, loops or numbers of the run that torch.func.vmap maps {what}: there it only computes",
        user_location(),
    )
