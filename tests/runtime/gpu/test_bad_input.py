"""What a machine may lack: the next tier runs, one notice says why, `tograph explain` too, and the device stays usable.

The driver runs on the CPU (``fake_driver``).
"""

import warnings

import pytest
import torch

import tograph as tg
from tests.runtime.gpu.fake_driver import plan_on_cpu
from tests.runtime.gpu.fake_graphs import Graph
from tests.runtime.kernels.loop_programs import halve
from tograph import cli, disk
from tograph.runtime.execution import scheduler
from tograph.runtime.gpu import capture, fused_code, program
from tograph.runtime.gpu.retarget import retarget
from tograph.runtime.kernels import device, driver
from tograph.runtime.kernels.loop_ir import Unsupported

pytest.importorskip("triton")
pytestmark = pytest.mark.usefixtures("interpreted")
X = torch.tensor([3.0, 4.0])


@pytest.fixture
def cuda(cuda, monkeypatch):
    """A device that works; plans for it run on the CPU, loops and branches as nodes."""
    monkeypatch.setattr(disk, "_warned", set())
    monkeypatch.setattr(program.Chunked, "__init__", _on_cpu(program.Chunked.__init__))
    plan_on_cpu(monkeypatch)
    probe = capture.probe_plan("cuda:0")
    monkeypatch.setattr(capture, "probe_plan", lambda place: probe)
    return cuda


def _on_cpu(init):
    return lambda self, plan, where=None, **kw: init(self, plan, "cpu", **kw)


def straight(x):
    return torch.relu(x) + 1, x.sum()


def compiled(fn, *args):
    """(what the scheduler makes of a function for a GPU, the warnings)."""
    graph = retarget(tg.function(fn).get_concrete_function(*args).value_graph, "cuda:0")
    runner = scheduler.build(graph)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        runner.compile()
    return runner, [str(w.message) for w in seen]


def works(cuda):
    """The device can still be used: another graph is captured and runs."""
    assert not cuda.capturing
    runner, seen = compiled(halve, X)
    assert runner.level == "device" and runner.reason == "" and seen == []
    assert runner.native.tier == 1 and int(runner.native.run([X])[1]) == 3


def probes_work(monkeypatch):
    """Only what comes behind the probes breaks."""
    for name in ("probed", "fuses"):
        monkeypatch.setattr(capture, name, lambda place: "")


def test_all_is_well(cuda):
    works(cuda)


def test_no_bindings_means_chunks_for_loops_only(cuda, monkeypatch):
    monkeypatch.setattr(driver, "_cu", lambda: "No module named 'cuda'")
    runner, seen = compiled(halve, X)
    assert runner.native.tier == 2 and len(seen) == 1
    assert "cuda-bindings is not installed" in seen[0] and "cuda-bindings" in runner.reason
    assert int(runner.native.run([X])[1]) == 3
    runner, seen = compiled(straight, X)
    assert (runner.native.tier, runner.reason, seen) == (1, "", [])
    for _ in range(4):  # inputs that move need the driver to be told: they are copied
        x = torch.rand(2)
        torch.testing.assert_close(runner.native.run([x]), list(straight(x)))


def test_no_device_is_said():
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    runner, seen = compiled(halve, X)
    assert (runner.level, runner.reason, seen) == ("host", "there is no CUDA device", [])


def test_an_old_driver_means_chunks_for_loops_only(cuda, monkeypatch):
    cuda.version = 12020
    runner, seen = compiled(halve, X)
    assert runner.native.tier == 2 and len(seen) == 1
    assert "the driver knows CUDA 12.2, conditional nodes need 12.4" in runner.reason
    runner, seen = compiled(straight, X)
    assert (runner.native.tier, seen) == (1, [])


def test_a_kernel_that_does_not_compile_is_one_notice(cuda, monkeypatch):
    with monkeypatch.context() as broken:
        refuse = _refuse(Unsupported("Triton: no such instruction"))
        broken.setattr(device, "launch", refuse)
        broken.setattr(fused_code, "image", refuse)
        probes_work(broken)
        runner, seen = compiled(halve, X)
        assert (runner.level, runner.reason) == ("host", "Triton: no such instruction")
        assert seen == ["tograph: halve runs op by op: Triton: no such instruction"]
    works(cuda)


@pytest.mark.parametrize("where", ["a kernel", "a library function"])
def test_what_cannot_be_captured_is_one_notice(cuda, monkeypatch, where):
    """In the body of a loop, half-way through: both captures end."""

    def product(x):
        while x.sum() > 1:
            x = x @ x * 0.3 - 0.01
        return x

    kernels = ["_run", "_setting"]  # those that set a handle too
    names, words = (kernels, "kernel") if where == "a kernel" else (["_call"], "library function")
    kind = Unsupported if where == "a kernel" else RuntimeError

    def refusing(before):
        def refuse(self, step):
            if len(self.path) == 2 and torch.cuda.current_stream().cuda_stream in cuda.capturing:
                raise kind(f"a {words} that is not permitted when stream is capturing")
            return before(self, step)

        return refuse

    with monkeypatch.context() as broken:
        for name in names:
            broken.setattr(capture.Captured, name, refusing(getattr(capture.Captured, name)))
        probes_work(broken)
        runner, seen = compiled(product, torch.eye(2))
    assert runner.native.tier == 2 and len(seen) == 1 and "not permitted" in runner.reason
    torch.testing.assert_close(runner.native.run([torch.eye(2)])[0], product(torch.eye(2)))
    works(cuda)


def test_too_little_memory_in_a_capture_is_one_notice(cuda, monkeypatch):
    with monkeypatch.context() as broken:

        def full(self, step):
            if torch.cuda.current_stream().cuda_stream in cuda.capturing:
                raise torch.OutOfMemoryError("CUDA out of memory")

        for name in ("_run", "_setting"):
            broken.setattr(capture.Captured, name, full)
        probes_work(broken)
        runner, seen = compiled(halve, X)
    assert runner.level == "host" and runner.reason.startswith("out of device memory: the plan needs")  # fmt: skip
    assert len(seen) == 1 and "halve runs op by op: out of device memory" in seen[0]
    works(cuda)


def test_too_little_memory_for_one_call_is_that_calls_error(cuda, monkeypatch):
    """As in eager PyTorch; the next call is as before."""
    runner, _ = compiled(straight, X)
    with monkeypatch.context() as broken:
        broken.setattr(torch, "empty_like", _refuse(torch.OutOfMemoryError("CUDA out of memory")))
        with pytest.raises(torch.OutOfMemoryError):
            runner.native.run([X])
    torch.testing.assert_close(runner.native.run([X]), list(straight(X)))


def test_a_probe_with_a_wrong_answer_means_chunks(cuda, monkeypatch):
    monkeypatch.setattr(Graph, "conditional", lambda self, kind, handle, bodies: None)
    runner, seen = compiled(halve, X)
    assert runner.native.tier == 2 and len(seen) == 1
    assert "a WHILE node gave [0, 0, 0] for [15, 0, 6]" in runner.reason


FILE = """
import torch
import tograph as tg

ONE, TWO = (tg.TensorSpec([5], torch.float32, device=f"cuda:{k}") for k in (0, 1))


@tg.function(input_signature=[ONE])
def halve(x):
    while x.sum() > 1:
        x = x * 0.5
    return x + 1


@tg.function(input_signature=[ONE, TWO])
def two(x, y):
    return x + 1, y + 1
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "functions.py"
    path.write_text(FILE)
    return path


def test_explain_tells_of_several_gpus(file, capsys):
    assert cli.main(["explain", f"{file}:two"]) == 0
    assert "two runs at level host: tensors on cuda:0 and cuda:1: a plan is for one GPU" in capsys.readouterr().out  # fmt: skip


def test_explain_tells_the_tier_and_the_kernels(cuda, file, capsys):
    cuda.version = 12020
    with pytest.warns(RuntimeWarning, match="runs in chunks"):
        assert cli.main(["explain", f"{file}:halve"]) == 0
    text = capsys.readouterr().out
    assert "halve runs at level device: no conditional nodes: the driver knows CUDA 12.2" in text
    assert "  kernel halve_kernel0: " in text and "warps (estimated)" in text


def _refuse(error):
    def refuse(*_, **__):
        raise error

    return refuse


def look(table, n):
    x = table[0] * 0
    while n > 0:
        x = x + torch.nn.functional.embedding(n - 1, table)
        n = n - 1
    return x


TABLE = torch.arange(12.0).reshape(4, 3)


def test_positions_are_not_tried_on_memory_without_content(cuda):
    """There -1 is the first one: on a GPU the kernel of an embedding stops the whole context."""
    runner, seen = compiled(look, TABLE, torch.tensor(2))
    assert runner.native.tier == 1 and seen == []
    assert torch.equal(runner.native.run([TABLE, torch.tensor(3)])[0], look(TABLE, torch.tensor(3)))


def test_positions_of_a_body_that_may_not_run_stay_on_the_host(cuda):
    cuda.version = 12020
    runner, seen = compiled(look, TABLE, torch.tensor(2))
    assert runner.level == "host" and len(seen) == 1
    assert "aten.embedding.default in a branch or loop, and no conditional nodes" in runner.reason
    assert "test_bad_input.py" in runner.reason
