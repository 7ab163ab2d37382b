import types

import pytest
import torch

import tograph as tg
from tograph.runtime.gpu import capture, planner
from tograph.runtime.gpu.retarget import retarget
from tograph.runtime.kernels import recording


@pytest.fixture
def pool():
    return recording.Pool(torch.device("cuda:0"))


def test_what_is_recorded_is_a_graph_of_its_own_memory(cuda, pool):
    graph, stream, seen = torch.cuda.CUDAGraph(), torch.cuda.Stream(), []
    with pool.recording(graph, stream):
        assert cuda.current[-1] is stream and cuda.pools == [pool.memory]
        cuda.add(stream.cuda_stream, "KERNEL", lambda: seen.append(1))
    assert cuda.current[-1] is not stream and not cuda.pools and not cuda.underway
    graph.replay()
    assert seen == [1]


@pytest.mark.parametrize("joined", [True, False])
def test_a_failure_leaves_torch_as_it_was(cuda, pool, joined):
    graph, stream, other = torch.cuda.CUDAGraph(), torch.cuda.Stream(), torch.cuda.Stream()
    with pytest.raises(KeyError), pool.recording(graph, stream):
        event = torch.cuda.Event()
        event.record(stream)
        other.wait_event(event)
        if not joined:
            cuda.add(other.cuda_stream, "KERNEL", lambda: None)
        raise KeyError("the first error")
    assert cuda.current[-1] is not stream and not cuda.pools
    assert not cuda.underway and not cuda.stuck and not cuda.capturing


def test_a_capture_that_cannot_be_ended_says_so(cuda, pool):
    stream, other = torch.cuda.Stream(), torch.cuda.Stream()
    with pytest.raises(RuntimeError, match="UNJOINED"), pool.recording(torch.cuda.CUDAGraph(), stream):  # fmt: skip
        event = torch.cuda.Event()
        event.record(stream)
        other.wait_event(event)
        cuda.add(other.cuda_stream, "KERNEL", lambda: None)
    assert cuda.current[-1] is not stream and not cuda.underway and not cuda.stuck


@pytest.mark.usefixtures("interpreted")
def test_what_library_functions_keep_while_steps_are_tried_is_the_graphs(cuda, monkeypatch):
    """Such as workspaces: the first call on a stream takes one, and torch may let go of it later."""
    seen = []
    call = capture.Captured._call

    def noted(self, step):
        seen.append((self._capturing, [*cuda.pools] == [self.pool.memory]))
        return call(self, step)

    monkeypatch.setattr(capture.Captured, "_call", noted)
    fn = tg.function(lambda x: x @ x + x)
    graph = fn.get_concrete_function(torch.eye(2)).value_graph
    plan = planner.plan(retarget(graph, "cuda:0"))
    plan.device = "cpu"
    capture.Captured(plan)
    assert seen == [(False, True), (True, True)]


class Generator:
    """A generator of a device: one that is ``stuck`` in a capture draws nothing."""

    def __init__(self, device=None, seed=1, offset=0, stuck=False):
        self.state = types.SimpleNamespace(seed=seed, offset=offset, stuck=stuck)

    def manual_seed(self, seed):
        self.state.seed = seed

    def initial_seed(self):
        return self.state.seed

    def get_offset(self):
        return self.state.offset

    def set_offset(self, offset):
        self.state.offset = offset

    def graphsafe_get_state(self):
        return self

    def graphsafe_set_state(self, other):
        self.state = other.state

    def draw(self, x, generator):
        if generator.state.stuck:
            raise RuntimeError("Offset increment outside graph capture encountered unexpectedly.")
        generator.state.offset += 4


@pytest.mark.parametrize("stuck", [True, False])
def test_a_generator_draws_on_where_it_was(monkeypatch, stuck):
    made = Generator(seed=7, offset=12, stuck=stuck)
    before = made.state
    monkeypatch.setattr(torch, "Generator", Generator)
    monkeypatch.setattr(torch.Tensor, "uniform_", lambda x, generator: made.draw(x, generator))
    recording.restored(made, torch.device("cpu"))
    assert (made.state.seed, made.state.offset, made.state.stuck) == (7, 12, False)
    assert (made.state is before) == (not stuck)  # other graphs that draw from it know its state
