"""Text in, text out: what one pass makes of a graph, with names in order of appearance."""

from tograph.runtime.graph.text import parse_graph, show
from tograph.runtime.graph.verification import verify
from tograph.runtime.passes import checked


def after(run, text):
    """The text of the graph that a pass makes of ``text``."""
    graph = parse_graph(text)
    verify(graph)
    return anonymous(checked(run, graph))


def plain(text):
    """The text with the names that the result of a pass has."""
    return anonymous(parse_graph(text))


def anonymous(graph):
    """The text of a graph without names of inputs: passes add inputs that have none."""
    for one in graphs(graph):
        one.input_names = []
    return show(graph)


def graphs(graph):
    yield graph
    for node in graph.nodes:
        for region in node.regions.values():
            yield from graphs(region)


def same(run, before, expected=None):
    """Assert that the pass makes ``expected`` of ``before``, or changes nothing."""
    assert after(run, before) == plain(expected or before)
