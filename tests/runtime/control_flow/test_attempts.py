"""Attempts that are undone while tracing: which nodes of the graph they take with them."""

from tograph.runtime.control_flow.attempts import Attempt
from tograph.runtime.graph.ir import Node
from tograph.runtime.graph.types import INT
from tograph.runtime.recording.tracing import recording
from tograph.runtime.symbols.funcgraph import FuncGraph


def test_what_it_puts_in_front_of_earlier_nodes_takes_none_of_these_along():
    graph = FuncGraph("f")
    with recording(graph):
        before = [graph.emit("py.constant", i, type=INT) for i in range(3)]
        attempt = Attempt([])
        start = Node("py.constant", (9,), {}, [INT])
        graph.graph.nodes.insert(1, start)  # as state that an earlier node gets begins with it
        made = graph.emit("py.constant", 10, type=INT)
        assert attempt.size() == 1
        attempt.undo()
    nodes = graph.graph.nodes
    assert [n.outputs[0] for n in nodes if n is not start] == before
    assert start in nodes and made in graph.undone


def test_a_node_that_it_removes_is_not_asked_for():
    graph = FuncGraph("f")
    with recording(graph):
        first = graph.emit("py.constant", 1, type=INT)
        graph.emit("py.constant", 2, type=INT)
        attempt = Attempt([])
        graph.graph.nodes.pop()  # a read that nothing has used
        graph.emit("py.constant", 3, type=INT)
        attempt.undo()
    assert [n.outputs[0] for n in graph.graph.nodes] == [first]
