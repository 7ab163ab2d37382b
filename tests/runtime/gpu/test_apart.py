"""Plans on a device whose memory the host cannot see: nothing mixes both sides, and results are where they belong."""

import pytest
import torch
import torch.nn.functional as F

import tograph as tg
from tests.runtime.gpu.apart import Mixed, OnDevice, apart, inside, on_device
from tests.runtime.gpu.fake_driver import Cuda, forget
from tograph.runtime.gpu import capture, planner, program, storage
from tograph.runtime.gpu.execute import Chunked, Stepwise
from tograph.runtime.kernels import device

pytest.importorskip("triton")
pytestmark = pytest.mark.skipif(
    torch.version.cuda is not None and not torch.cuda.is_available(),
    reason="a build of torch for CUDA asks the driver where a tensor says that it is on a GPU",
)
RUNNERS = {"program": program.Program, "chunked": lambda graph: Chunked(planner.plan(graph)), "stepwise": lambda graph: Stepwise(planner.plan(graph))}  # fmt: skip
N = torch.tensor


@pytest.fixture
def mode(monkeypatch):
    monkeypatch.setattr(storage, "SMALL", 256)  # what is larger goes by itself
    yield apart(monkeypatch, Cuda())
    monkeypatch.undo()
    forget(capture.probed)


class Host:
    """An argument that is on the CPU."""

    def __init__(self, x):
        self.x = x


def decay(x, rate, n):
    i = torch.tensor(0)
    while i < n and x.sum() > 1:
        x = x * rate
        i = i + 1
    return x, i, n + 1


def batches(batch, w):
    """Tensors that are large here, there and back."""
    y = batch.to(w.device) @ w
    return y.relu(), y.cpu(), y.abs().amax().cpu()


def counted(least, b, x):
    n = 0
    while x.abs().sum() > least.item():
        x, n = x * 0.5, n + 1
    return x, n, b + n


def listed(x, n):
    out = []
    while n > 0:
        out.append(x * n)
        n = n - 1
    return torch.stack(out).sum(0) if len(out) > 0 else x


def masked(x):
    y = x[x > 0]
    return y.sum(), y


def branched(x, n):
    if n > 2:
        y = x @ x
    else:
        y = x + 1
    return tg.switch_case(n % 3, [lambda: y.sin() @ x, lambda: y @ x, lambda: y @ x @ x])


def divided(x, n, k):
    while n > 0:
        x = x * (10 // k.item())
        n = n - 1
    return x


def cached(x, n):
    keys, i = x.new_zeros(8, 5), torch.zeros_like(n)
    while i < n:
        keys[i] = x * i
        x = x + (keys[: i + 1] @ x).sum()
        i = i + 1
    return keys, x


def looked_up(x, target):
    return F.embedding(target, x), F.cross_entropy(x, target)


def random(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)) * 0.1


SQUARE = random(20, 20)
CASES = {
    "decay": (decay, [(torch.ones(5), Host(N(rate)), Host(N(n))) for rate, n in ((0.5, 2), (0.25, 9), (0.5, 0))]),
    "batches": (batches, [(Host(random(12, 8, seed=k)), random(8, 10)) for k in range(5)]),
    "counted": (counted, [(Host(N(least)), Host(torch.arange(4)), random(200, seed=1)) for least in (4.0, 1.0, 1e9)]),
    "listed": (listed, [(torch.ones(2), N(n)) for n in (2, 0)]),
    "masked": (masked, [(random(9, seed=k),) for k in range(2)]),
    "branched": (branched, [(SQUARE, N(n)) for n in (2, 3, 4)]),
    "divided": (divided, [(torch.ones(5), N(n), N(k)) for n, k in ((3, 3), (1, 5))]),
    "cached": (cached, [(random(5), N(n)) for n in (3, 5)]),
    "looked_up": (looked_up, [(random(3, 4), N(t)) for t in ([0, 1, 2], [2, 2, 0])]),
}  # fmt: skip


def graph_of(fn, args):
    places = ["cpu" if isinstance(a, Host) else "cuda:0" for a in args]
    specs = [tg.TensorSpec(list(x.shape), x.dtype, device=d) for x, d in zip(plain(args), places)]
    return tg.function(fn).get_concrete_function(*specs).value_graph


def plain(args):
    return [(a.x if isinstance(a, Host) else a).clone() for a in args]


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("runner", RUNNERS)
def test_a_plan_on_a_device_of_its_own(runner, name, mode):
    fn, calls = CASES[name]
    graph = graph_of(fn, calls[0])
    with torch.no_grad(), mode:
        made = RUNNERS[runner](graph)
        found = []
        for args in calls:
            given = [x if isinstance(a, Host) else on_device(x) for a, x in zip(args, plain(args))]
            found.append(made.run(given) if runner == "program" else made.run(*given))
    for args, got in zip(calls, found, strict=True):
        want = fn(*plain(args))
        for a, b, v in zip(got, want if isinstance(want, tuple) else (want,), graph.outputs, strict=True):  # fmt: skip
            assert isinstance(a, OnDevice) == (getattr(v.type, "device", "cpu") == "cuda:0")
            torch.testing.assert_close(torch.as_tensor(inside(a)), torch.as_tensor(b))
    assert runner != "program" or (made.tier, made.notes) == (1, [])


def told(x, n):
    i = torch.zeros_like(n)
    while i < n:
        x = x * 0.5
        print("at", i, x.sum())
        if i % 3 == 2:
            tg.py_function(lambda k: print("told", int(k)), [i], None)
        i = i + 1
    return x, i


@pytest.mark.parametrize("runner", ["program", "stepwise"])
def test_what_the_host_does_in_between(runner, mode, capsys):
    graph = graph_of(told, (torch.ones(5), N(4)))
    with torch.no_grad(), mode:
        made = RUNNERS[runner](graph)
        for n in (4, 0, 2):
            given = on_device(torch.ones(5)), on_device(N(n))
            got = made.run(given) if runner == "program" else made.run(*given)
            said = capsys.readouterr().out
            with torch.utils._python_dispatch._disable_current_modes():
                want = told(torch.ones(5), N(n))
                assert said == capsys.readouterr().out
                for a, b in zip(got, want):
                    torch.testing.assert_close(inside(a), b)


def test_draws(mode):
    graph = graph_of(lambda x: x + torch.rand_like(x), (torch.ones(5),))
    with torch.no_grad(), mode:
        made = program.Program(graph)
        first, second = (made.run([on_device(torch.ones(5))])[0] for _ in range(2))
    assert not torch.equal(inside(first), inside(second)) and (inside(first) >= 1).all()
    assert torch.cuda.default_generators[0].offset == 8


def test_both_sides_in_one_op_are_an_error(mode):
    x, y = on_device(torch.ones(3)), torch.ones(3)
    with mode:
        assert (x + 1 + torch.tensor(2.0)).device.type == "cuda" and x.cpu().sum() == 3
        assert torch.zeros(3, device="cuda:0").copy_(y).data_ptr() and y.copy_(x) is y
        with pytest.raises(Mixed):
            x + y
        source = planner.plan(graph_of(lambda x: x + 1, (y,))).steps[0].source
        with pytest.raises(Mixed, match="memory of the host"):
            device.launch(source, {"p0": y, "o0": torch.empty(3, device="cuda:0")})
