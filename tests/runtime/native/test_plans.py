"""Native code that an earlier process made is found again, for the same graph only."""

import io
import subprocess
import sys

import pytest
import torch

import tograph as tg
from tograph import disk
from tograph.runtime.execution import scheduler
from tograph.runtime.kernels import jit
from tograph.runtime.native import compiling, plans

LOAD = plans.load
X, N = torch.arange(12.0).view(3, 4), torch.tensor(5)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A cache of its own."""
    monkeypatch.setattr(plans, "load", LOAD)
    monkeypatch.setattr(disk.settings, "CACHE_DIR", str(tmp_path))
    return tmp_path


@pytest.fixture
def no_lowering(monkeypatch):
    def refuse(*_):
        raise AssertionError("the graph is lowered")

    return lambda: monkeypatch.setattr(scheduler, "compile_graph", refuse)


def fresh(f, *args):
    """The results of ``f`` in what is like a new process, and its program."""
    compiling._lowered.clear()
    made = tg.function(f)
    return made(*args), made.get_concrete_function(*args).scheduled


def same(a, b):
    if isinstance(a, torch.Tensor):
        return torch.equal(a, b) and a.stride() == b.stride()
    return type(a) is type(b) and a == b


def halve(x, n):
    i = 0
    while x.sum() > n:
        x = x / 2
        i = i + 1
    return x, i, x[1:]


def turned(x, n):
    i = torch.zeros((), dtype=torch.int64)
    while i < n:
        x = x * 0.5 + x.mean()
        i = i + 1
    return x.t(), i


def written(x, n):
    x = x.clone()
    for i in range(int(n)):
        x[i % 3] += x.sum()
    return x


def failing(x, n):
    i, found = 0, 0
    while i < n:
        found = found + 6 // (3 - i)
        i = i + 1
    return found


def asking(x, n):
    """torch is asked for ops, with numbers and sizes of the run."""
    i, total = 0, torch.zeros(())
    while i < n:
        best, where = torch.topk(x[: i % 3 + 1].flatten() * 1.5, 2)
        kinds = torch.unique((x * 0.5).long() % 5)
        total = total * 0.5 + best.sum() + where.float().mean() + kinds.sum() + len(kinds)
        x = torch.sort(x * 0.9 + i, dim=1, descending=True)[0] + torch.digamma(x + 1 + i)
        i = i + 1
    return x, total


@pytest.mark.parametrize("f", [halve, turned, written, asking])
def test_found_without_passes_and_lowering(folder, no_lowering, f):
    first, made = fresh(f, X, N)
    assert made.level == "native"
    assert len(list(folder.glob("*.plan"))) == 1
    no_lowering()
    again, found = fresh(f, X, N)
    assert found.level == "native"
    assert "graph" not in vars(found)  # no pass has run
    assert found.llvm == made.llvm
    expected = f(X, N)
    several = isinstance(expected, tuple)
    for a, b, c in zip(*((first, again, expected) if several else ([first], [again], [expected]))):
        assert same(a, b)
        assert same(b, c)


def test_found_in_another_process(folder, tmp_path):
    path = tmp_path / "program.py"
    path.write_text(
        "import sys, torch, tograph as tg\n"
        "from tograph.runtime.execution import scheduler\n"
        "from tograph.runtime.kernels import objects\n"
        "made = []\n"
        "compile_graph = scheduler.compile_graph\n"
        "scheduler.compile_graph = lambda *a: made.append(1) or compile_graph(*a)\n"
        "@tg.function\n"
        "def f(x):\n"
        "    while x.sum() < 100:\n"
        "        x = x * 2\n"
        "    return x\n"
        "print(len(made), f(torch.ones(3)).tolist(), len(made))\n"
        "f(torch.ones(3)), f(torch.ones(3))\n"
        "print(objects._fits() and 'llvmlite.binding' in sys.modules)\n"
    )
    said = []
    for _ in range(2):
        command = [sys.executable, str(path)]
        environment = {**__import__("os").environ, "TOGRAPH_CACHE_DIR": str(folder)}
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
        said.append(done.stdout.splitlines())
    assert [lines[0] for lines in said] == ["0 [64.0, 64.0, 64.0] 1", "0 [64.0, 64.0, 64.0] 0"]
    assert said[1][1] == "False"  # LLVM was not loaded, for later calls neither


def test_gradients(no_lowering):
    def gradient(f):
        x = X.clone().requires_grad_()
        (f(x, N)[0] * X.t()).sum().backward()
        return x.grad

    expected = gradient(turned)
    for again in (False, True):
        if again:
            no_lowering()
        compiling._lowered.clear()
        torch.testing.assert_close(gradient(tg.function(turned)), expected)


def test_a_failure_is_that_of_the_host(no_lowering):
    for again in (False, True):
        if again:
            no_lowering()
        made = tg.function(failing)
        for x in (X + 1, X + 1):
            with pytest.raises(ZeroDivisionError) as caught:
                made(x, N)
            assert "test_plans.py" in "".join(caught.value.__notes__)


def test_kernels_are_shown():
    _, made = fresh(turned, torch.randn(40, 30), N)
    _, found = fresh(turned, torch.randn(40, 30), N)
    assert found._native.low.kernels is None
    assert [k.llvm for k in found.kernels] == [k.llvm for k in made.kernels] != []


@pytest.mark.parametrize("other", ["constant", "line", "type", "CPU"])
def test_another_graph_or_machine(folder, monkeypatch, other):
    def loop(k):
        def f(x):
            while x.sum() < 100:
                x = x * k
            return x

        return f

    assert fresh(loop(2.0), X + 1)[0].sum() >= 100
    x, k = X + 1, 2.0
    if other == "constant":
        k = 3.0
    elif other == "type":
        x = x.double()
    elif other == "CPU":
        monkeypatch.setattr(jit, "target", lambda: ("another",))
    found, _ = fresh(loop(k), x) if other != "line" else fresh(halve, X, N)
    assert len(list(folder.glob("*.plan"))) == 2
    assert torch.equal(found if other != "line" else found[0], loop(k)(x) if other != "line" else halve(X, N)[0])  # fmt: skip


def printing(file):
    def f(x):
        while x.sum() < 100:
            x = x * 2
            x = x + x.mean() - x.sin()
            print(x.sum() > 50, file=file)
        return x

    return f


def test_the_same_text_with_another_object(folder):
    """A print to another file has the same text in the graph."""
    files = [io.StringIO(), io.StringIO()]
    for file in files:
        tg.function(printing(file))(X + 1)
    expected = io.StringIO()
    printing(expected)(X + 1)
    assert [file.getvalue() for file in files] == [expected.getvalue()] * 2
    assert not list(folder.glob("*.plan"))


def test_a_damaged_file(folder, monkeypatch):
    monkeypatch.setattr(disk, "_warned", set())
    fresh(halve, X, N)
    (path,) = folder.glob("*.plan")
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.warns(RuntimeWarning, match="damaged"):
        found, made = fresh(halve, X, N)
    assert same(found[0], halve(X, N)[0])
    assert made.level == "native"


def test_verified_passes_run_each_time(folder, monkeypatch):
    monkeypatch.setattr(plans.settings, "VERIFY", True)
    _, made = fresh(halve, X, N)
    assert "graph" in vars(made)
    assert not list(folder.glob("*.plan"))
