"""Whether a graph is well formed: values are defined before they are used, regions take and give what their node says."""

from __future__ import annotations

from ...errors import VerifyError
from . import ops
from .families import ALTERNATIVES
from .ir import Graph, Node, Value


def verify(graph: Graph) -> None:  # noqa: C901  a case for each kind
    """Raise VerifyError unless the graph is well formed, regions included."""
    known: set[Value] = set(graph.inputs)
    done: set[Node] = set()
    if len(known) != len(graph.inputs):
        raise VerifyError(f"{graph.name}: an input appears twice")
    for node in graph.nodes:
        if node.op not in ops.REGION_OPS and not ops.exists(node.op):
            raise VerifyError(f"{graph.name}: no such op: {node.op}")
        for value in node.inputs:
            if value not in known:
                raise VerifyError(
                    f"{graph.name}: {node.op} uses a value that is not defined before it"
                )
        for before in node.control_inputs:
            if before not in done:
                raise VerifyError(
                    f"{graph.name}: {node.op} has a control input that comes after it"
                )
        if node.op in ops.REGION_OPS:
            _verify_regions(graph, node)
        known.update(node.outputs)
        done.add(node)
    for value in graph.outputs:
        if value not in known:
            raise VerifyError(f"{graph.name}: an output is not defined")


def _verify_regions(graph: Graph, node: Node) -> None:
    skip = 1 if node.op in ALTERNATIVES else 0
    count = len(node.args) - skip
    for name in ops.REQUIRED_REGIONS.get(node.op, ()):
        if name not in node.regions:
            raise VerifyError(f"{graph.name}: {node.op} has no region {name!r}")
    for name, region in node.regions.items():
        if name == "gradient":
            _verify_gradient(graph, node, region)
            continue
        if len(region.inputs) != count:
            raise VerifyError(
                f"{graph.name}: {node.op}.{name} takes {len(region.inputs)} inputs, not {count}"
            )
        wanted = 1 if name == "cond" else len(node.outputs)
        if len(region.outputs) != wanted:
            raise VerifyError(
                f"{graph.name}: {node.op}.{name} gives {len(region.outputs)} outputs, not {wanted}"
            )
        verify(region)


def _verify_gradient(graph: Graph, node: Node, region: Graph) -> None:
    beside = 2 if "told" in node.kwargs else 1
    takes, gives = len(node.args) + beside * len(node.outputs), len(node.kwargs["wrt"])
    if (len(region.inputs), len(region.outputs)) != (takes, gives):
        raise VerifyError(
            f"{graph.name}: {node.op}.gradient does not take {takes} and give {gives}"
        )
    verify(region)
