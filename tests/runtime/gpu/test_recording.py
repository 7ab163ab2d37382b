import gc
import threading
import time
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


def test_threads_record_one_after_another(cuda, pool, monkeypatch):
    """And nobody waits for the device meanwhile, which would end the capture of the other one."""
    told, inside = [], threading.Event()
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device=None: told.append(("waits", bool(cuda.capturing))))  # fmt: skip

    def first():
        with pool.recording(torch.cuda.CUDAGraph(), torch.cuda.Stream()):
            inside.set()
            time.sleep(0.2)
            told.append("first")

    def second():
        inside.wait()
        recording.settle(torch.device("cuda:0"))
        with recording.Pool(torch.device("cuda:0")).recording(torch.cuda.CUDAGraph(), torch.cuda.Stream()):  # fmt: skip
            told.append("second")

    threads = [threading.Thread(target=f) for f in (first, second)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    waits = ("waits", False)
    assert told == [waits, "first", waits, waits, "second"]


def test_garbage_waits_for_the_last_of_several_scopes():
    assert gc.isenabled()
    with recording._quiet:
        with recording._quiet:
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


@pytest.mark.usefixtures("interpreted")
@pytest.mark.parametrize("times", [2, 3])
def test_a_capture_that_another_thread_ends_is_tried_again(cuda, times, monkeypatch):
    left, end = [times], cuda.end

    def ended(made):
        end(made)
        if left[0]:
            left[0] -= 1
            raise RuntimeError("CUDA error: operation failed due to a previous error during capture")  # fmt: skip

    monkeypatch.setattr(cuda, "end", ended)
    square = tg.TensorSpec([4, 4], torch.float32, device="cuda:0")
    plan = planner.plan(tg.function(lambda x: x @ x).get_concrete_function(square).value_graph)
    plan.device = "cpu"
    if times == 3:
        with pytest.raises(RuntimeError, match="a previous error"):
            capture.captured(plan)
    else:
        torch.testing.assert_close(capture.captured(plan).run(torch.ones(4, 4))[0], torch.full((4, 4), 4.0))  # fmt: skip


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
