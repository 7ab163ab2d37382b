"""The driver of the tests refuses what a real one does."""

import pytest
import torch

from tests.runtime.gpu.fake_graphs import Graph, Refused
from tograph.runtime.kernels import recording


def a_node(graph, handle, kind, bodies):
    return ("CONDITIONAL", lambda: graph.conditional(kind, handle, bodies), set())


@pytest.mark.parametrize("kind", ["IF", "WHILE", "SWITCH"])
def test_a_node_whose_handle_nobody_sets_has_no_value(kind):
    graph = Graph()
    graph.handles[0] = 0  # of an earlier launch
    graph.nodes.append(a_node(graph, 0, kind, [Graph(graph)]))
    with pytest.raises(AssertionError, match="no kernel has set"):
        graph.launch()


def test_an_iteration_sets_its_handle():
    graph = Graph()
    body, seen = Graph(graph), []
    body.nodes.append(("KERNEL", lambda: seen.append(1), set()))
    graph.handles[0] = None
    graph.nodes += [("KERNEL", lambda: graph.handles.update({0: 1}), set()), ("CONDITIONAL", lambda: graph.conditional("WHILE", 0, [body]), {0})]  # fmt: skip
    with pytest.raises(AssertionError, match="no kernel has set"):
        graph.launch()
    assert seen == [1]


def test_a_capture_waits_for_nothing_outside(cuda):
    pool, stream = recording.Pool(torch.device("cuda:0")), torch.cuda.Stream()
    before, none = torch.cuda.Event(), torch.cuda.Event()
    before.record(torch.cuda.current_stream())
    with pool.recording(torch.cuda.CUDAGraph(), stream):
        stream.wait_event(none)  # nobody has recorded it
        with pytest.raises(Refused, match="Isolation"):
            stream.wait_event(before)
        inside = torch.cuda.Event()
        inside.record(stream)
        with pytest.raises(Refused, match="CapturedEvent"):
            inside.synchronize()
        with pytest.raises(AssertionError, match="ends a capture"):
            torch.cuda.synchronize()
    with pytest.raises(Refused, match="CapturedEvent"):
        torch.cuda.current_stream().wait_event(inside)


def test_the_default_stream_is_not_captured(cuda):
    pool = recording.Pool(torch.device("cuda:0"))
    with pytest.raises(AssertionError, match="default stream"), pool.recording(torch.cuda.CUDAGraph(), torch.cuda.current_stream()):  # fmt: skip
        pass
