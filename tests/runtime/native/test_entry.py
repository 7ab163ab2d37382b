"""The call path in machine code: the same results, and ``MISS`` wherever a call is not of the plain kind."""

import gc
import types
import weakref

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import tograph as tg
from tograph.runtime.execution import scheduler
from tograph.runtime.native import entry, layout

pytestmark = pytest.mark.skipif(
    layout.layout() is None or entry._symbols() is None, reason="this torch has another layout"
)


def affine(x, y):
    return x * y + 1


def warm(f, *args):
    for _ in range(4):
        f(*args)
    entry = f._entry
    assert entry is not None
    return entry


@pytest.fixture
def fast():
    return warm(tg.function(affine), torch.arange(4.0), torch.ones(4))


def test_plain_calls(fast):
    x, y = torch.arange(4.0), torch.ones(4)
    for a, b in [(x, y), (torch.arange(8.0)[4:], y), (x, torch.ones(2, 2).view(4)), (torch.nn.Parameter(x, False), y)]:  # fmt: skip
        got = fast(a, b)
        assert torch.equal(got, a * b + 1)
        assert type(got) is torch.Tensor
        assert got._version == 0
        assert got.grad_fn is None


def test_a_program_of_many_inputs_has_an_entry():
    weights = [torch.full((3,), float(i)) for i in range(60)]
    f = tg.function(lambda x: sum(x * w for w in weights))
    cf = f.get_concrete_function(torch.ones(3))
    for _ in range(6):
        (found,) = cf.scheduled.run(torch.ones(3), *cf.captured_inputs)
        assert torch.equal(found, torch.full((3,), 1770.0))
    assert cf.scheduled.native._whole is not None


class Mode(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


X, Y = torch.arange(4.0), torch.ones(4)


@pytest.mark.parametrize(
    "args",
    [(), (X,), (X, Y, Y), (X, 1), (None, None), (X, X), (X, Y.double()), (torch.ones(5), Y), (torch.ones(4, 2)[:, 0], Y),
     (X.reshape(2, 2), Y), (X, Y.clone().requires_grad_()), (X, Y.clone().requires_grad_() * 2), (X.to("meta"), Y), (X.to_sparse(), Y),
     (X, torch.complex(X, X).imag), (X, torch._neg_view(Y))],
)  # fmt: skip
def test_other_arguments_miss(fast, args):
    assert fast(*args) is entry.MISS


def test_other_circumstances_miss(fast):
    with Mode():
        assert fast(X, Y) is entry.MISS
    with torch.device("cpu"):
        assert fast(X, Y) is entry.MISS
    with torch.autocast("cpu"):
        assert fast(X, Y) is entry.MISS
    torch.set_default_dtype(torch.float64)
    try:
        assert fast(X, Y) is entry.MISS
    finally:
        torch.set_default_dtype(torch.float32)
    seen = []
    torch.func.vmap(lambda x: seen.append(fast(x, x + 1)) or x)(torch.ones(3, 4))
    assert seen == [entry.MISS]
    assert fast(X, Y) is not entry.MISS


def test_gradients_only_when_they_are_on():
    f = tg.function(affine)
    fast = warm(f, X, Y)
    y = torch.ones(4, requires_grad=True)
    assert f(X, y).requires_grad
    with torch.no_grad():
        assert torch.equal(fast(X, y), X + 1)


def counted(x):
    n = 0
    while x.sum() < 100:
        x = x * 2
        n += 1
    return x, n, n > 3, n / 2


def test_several_results():
    fast = warm(tg.function(counted), torch.ones(3))
    got = fast(torch.ones(3))
    expected = counted(torch.ones(3))
    assert torch.equal(got[0], expected[0])
    assert got[1:] == expected[1:]
    assert list(map(type, got)) == [torch.Tensor, int, bool, float]
    x = torch.full((3,), 200.0)
    assert fast(x)[0] is x


def test_captured_tensors_are_read_and_kept():
    w = torch.full((4,), 2.0)
    f = tg.function(lambda x: x * w)
    fast = warm(f, X)
    w.add_(1)
    assert torch.equal(fast(X), X * 3)
    w.data = torch.full((4,), 5.0)
    assert torch.equal(fast(X), X * 5)


def test_captured_tensors_live_as_long_as_the_entry():
    holder = [torch.full((4,), 2.0)]
    f = tg.function(lambda x: x * holder[0])
    fast = warm(f, X)
    kept = weakref.ref(holder.pop())
    f.clear_cache()
    gc.collect()
    assert kept() is not None
    assert torch.equal(fast(X), X * 2)


SCALE = 2.0


def scaled(x):
    return x * SCALE


def test_a_changed_global_is_seen(monkeypatch):
    f = tg.function(scaled)
    warm(f, X)
    assert torch.equal(f(X), X * 2)
    monkeypatch.setitem(globals(), "SCALE", 3.0)
    assert torch.equal(f(X), X * 3)


def test_eager_mode_is_seen():
    f = tg.function(affine)
    warm(f, X, Y)
    calls = []
    f.python_function = lambda *a: calls.append(a)
    tg.run_functions_eagerly(True)
    try:
        f(X, Y)
    finally:
        tg.run_functions_eagerly(False)
    assert len(calls) == 1


def test_without_the_layout(monkeypatch):
    monkeypatch.setattr(entry, "_method", lambda: None)
    f = tg.function(affine)
    for _ in range(4):
        assert torch.equal(f(X, Y), X + 1)
    assert f._entry is None


def kept(x):
    numbers, rows = [], []
    for v in x:
        if v > 1:
            numbers.append(v.item())
            rows.append(v.int().item())
    return numbers, rows, [n > 2 for n in numbers], x[x > 1], x.sum() + 1 / (len(rows) - 1)


def test_lists_and_tensors_of_open_sizes_leave_by_an_entry():
    f, x = tg.function(kept), torch.tensor([1.5, -0.0, 7.0, 3.0])
    for _ in range(6):
        assert str(f(x)) == str(kept(x))
    assert f._entry is not None and f.concrete_functions[0].scheduled.level == "native"
    assert str(f(torch.full((4,), 2.0))) == str(kept(torch.full((4,), 2.0)))
    first = f(x)[0]
    first.append(1)
    assert f(x)[0] != first
    with pytest.raises(ZeroDivisionError):
        f(torch.tensor([1.5, 0.0, 1.0, 0.0]))
    w = x.clone().requires_grad_()
    f(w)[3].sum().backward()
    assert w.grad.tolist() == [1.0, 0.0, 1.0, 1.0]


OPEN = [(None, None), (1, None), (1, 1, None, 3), (None, 3, None), (2, None, 3, None), (None, None, 2)]


@pytest.mark.parametrize("shape", OPEN, ids=str)
def test_sizes_of_the_run(shape):
    def f(x, y):
        return x * y + 1, x.sum(), y

    spec = tg.TensorSpec(shape, torch.float32)
    sizes = [[n or m for n, m in zip(shape, more)] for more in ((5, 7, 2, 3), (1, 1, 1, 1), (4, 3, 9, 5), (3, 8, 1, 6))]  # fmt: skip
    fast = warm(tg.function(f, input_signature=[spec, spec]), torch.ones(sizes[0]), torch.zeros(sizes[0]))  # fmt: skip
    for size in sizes:
        x, y = torch.randn(size), torch.randn(size)
        got = fast(x, y)
        torch.testing.assert_close(got, f(x, y), check_stride=True)
        assert got[2] is y
        part = torch.randn([n + 1 for n in size])[tuple(slice(n) for n in size)]
        others = [x.double(), x[0], x.clone().requires_grad_(), x.to_sparse()]
        for a in (*others, *(v for v in (part, x.transpose(0, -1)) if not v.is_contiguous())):
            assert fast(a, y) is entry.MISS


def test_a_size_that_is_known_is_looked_at_beside_others():
    spec = tg.TensorSpec((None, 3, None), torch.float32)
    fast = warm(tg.function(lambda x: x.exp(), input_signature=[spec]), torch.ones(2, 3, 4))
    assert fast(torch.ones(2, 4, 3)) is entry.MISS
    assert fast(torch.ones(2, 3)) is entry.MISS
    assert fast(torch.ones(5, 3, 1)).shape == (5, 3, 1)


def test_what_is_written_is_apart_from_tensors_of_any_size():
    state = torch.arange(6.0)

    def f(x):
        state.add_(1)
        return x * 2

    spec = tg.TensorSpec((None, None), torch.float32)
    fast = warm(tg.function(f, input_signature=[spec]), torch.ones(2, 3))
    before = state.clone()
    for x in (state.view(2, 3), state[4:].view(1, 2), state[:1].view(1, 1)):
        assert fast(x) is entry.MISS
    assert torch.equal(state, before)
    assert torch.equal(fast(before.view(3, 2)), before.view(3, 2) * 2)
    assert torch.equal(state, before + 1)


def test_programs_of_other_devices_have_no_entry():
    cf = tg.function(affine).get_concrete_function(X, Y)
    cf.scheduled._native = types.SimpleNamespace(kernels=[])
    assert cf.entry is None


# ---- what is written, and random numbers


def grown(x, y):
    x.add_(y)
    return x.sum()


def test_what_is_written_gets_a_new_version():
    x = torch.arange(4.0)
    fast = warm(tg.function(grown), x, torch.ones(4))
    x, before = torch.arange(4.0), x._version
    assert fast(x, torch.ones(4)) == 10
    assert torch.equal(x, torch.arange(1.0, 5.0))
    assert (x._version, before) == (1, 4)


def test_what_is_written_is_apart_from_the_rest():
    fast = warm(tg.function(grown), torch.arange(4.0), torch.ones(4))
    both = torch.arange(8.0)
    for x, y in [(both[1:5], both[:4]), (both[:4], both[3:7]), (both[2:6], both[2:6])]:
        assert fast(x, y) is entry.MISS
    assert torch.equal(both, torch.arange(8.0))
    assert fast(both[:4], both[4:]) == 6 + 22
    leaf = torch.ones(4, requires_grad=True)
    assert fast(leaf, torch.ones(4)) is entry.MISS
    with torch.no_grad():
        assert fast(leaf, torch.ones(4)) == 8


@pytest.mark.parametrize("make", [lambda: tg.Variable([1.0, 2.0], requires_grad=False), lambda: torch.tensor([1.0, 2.0])])  # fmt: skip
def test_a_captured_tensor_is_written(make):
    state = make()

    @tg.function
    def step(x):
        with torch.no_grad():
            state.add_(x)
        return state * 2

    fast = warm(step, torch.ones(2))
    version = state._version
    assert torch.equal(fast(torch.ones(2)), 2 * (torch.tensor([1.0, 2.0]) + 5))
    assert state._version == version + 1
    assert fast(state) is entry.MISS


def test_random_numbers_are_those_of_eager():
    def walk(x, n):
        i = 0
        while i < n:
            x = torch.tanh(x * 2 + 1) + torch.randn(3)
            i += 1
        return x

    args = torch.zeros(3), torch.tensor(5)
    fast = warm(tg.function(walk), *args)
    torch.manual_seed(1)
    found = [fast(*args) for _ in range(3)]
    torch.manual_seed(1)
    for x in found:
        assert torch.allclose(x, walk(*args), atol=1e-5)


def test_what_declines_leaves_the_generator_as_it_was():
    def draw(table, n):
        i, total = 0, torch.zeros(3)
        while i < n:
            total = total * 0.5 + torch.rand(3) + table[i]
            i += 1
        return total

    table = torch.zeros(4)
    fast = warm(tg.function(draw), table, torch.tensor(3))
    before = torch.get_rng_state()
    assert fast(table, torch.tensor(9)) is entry.MISS
    assert torch.equal(torch.get_rng_state(), before)


# ---- calls that Python prepares


def nested(xs, options, n=2):
    xs[0].add_(1)
    total = xs[0] * n + options["shift"]
    return {"total": total, "same": xs[1], "pair": (total.sum(), [total, n])}


def test_calls_with_containers_go_by_an_entry_too():
    f = tg.function(nested)
    for k in range(6):
        xs, options = [torch.full((4,), float(k)), torch.ones(3)], {"shift": torch.arange(4.0)}
        got = f(xs, options, n=3)
        want = nested([torch.full((4,), float(k)), xs[1]], options, n=3)
        assert torch.equal(got["total"], want["total"])
        assert torch.equal(got["pair"][0], want["pair"][0])
        assert got["same"] is xs[1]
        assert got["pair"][1][0] is got["total"]
        assert got["pair"][1][1] == 3
        assert xs[0]._version == 1
        assert xs[0][0] == k + 1
    native = f.concrete_functions[0].scheduled.native
    assert native is not None
    assert native._whole is not None


def test_a_failure_is_that_of_eager_after_many_calls():
    def pick(xs, i):
        j = 0
        while j < i[0]:
            j += 1
        return xs[0][j] * 2

    f = tg.function(pick)
    for _ in range(5):
        assert f([torch.arange(4.0)], [torch.tensor(2)]) == 4
    with pytest.raises(IndexError):
        f([torch.arange(4.0)], [torch.tensor(7)])
    assert f([torch.arange(4.0)], [torch.tensor(1)]) == 2


def test_programs_without_results():
    """Nothing is made: there is nothing to keep of what the last call made."""
    box = torch.zeros(2)

    def count(x):
        box.add_(x)

    f = tg.function(count)
    for _ in range(6):
        f(torch.ones(2))
    assert box.tolist() == [6, 6]
    g = tg.function(lambda x: {"x": x, "same": x})
    x = torch.ones(2)
    for _ in range(6):
        assert g(x)["same"] is x


def whole(x):
    return x @ x  # integers: the host runs it


def test_a_program_of_the_host_has_an_entry():
    x = torch.arange(4).view(2, 2)
    f = tg.function(whole)
    fast = warm(f, x)
    assert f.concrete_functions[0].scheduled.level == "host"
    assert torch.equal(fast(x + 1), (x + 1) @ (x + 1))
    for other in (x.float(), torch.ones(3, 3, dtype=torch.int64), x.t(), 3, x[:1]):
        assert fast(other) is entry.MISS
    assert torch.equal(f(x.t()), x.t() @ x.t())


def test_a_program_of_the_host_is_called_with_what_it_captured_and_gives_tuples():
    w = torch.arange(4).view(2, 2)
    f = tg.function(lambda x, y: (x @ w, y @ w))
    fast = warm(f, w, w + 1)
    w.add_(1)
    got = fast(w, w * 2)
    assert type(got) is tuple
    assert torch.equal(got[0], w @ w)
    assert torch.equal(got[1], (w * 2) @ w)
    assert fast(w, w) is entry.MISS  # one tensor twice is another trace


def test_an_error_of_the_host_names_the_line():
    def chosen(x, i):
        return (x @ x)[i]

    f = tg.function(chosen)
    x = torch.arange(4).view(2, 2)
    warm(f, x, torch.tensor([0, 1]))
    with pytest.raises(IndexError) as failed:
        f(x, torch.tensor([0, 5]))
    assert "(x @ x)[i]" in "".join(failed.value.__notes__)


def test_gradients_of_a_program_of_the_host():
    def convolved(x, w):
        return torch.nn.functional.conv1d(x, w)

    x, w = torch.randn(1, 2, 9), torch.randn(3, 2, 3)
    f = tg.function(convolved)
    warm(f, x, w)
    w.requires_grad_()
    f(x, w).sum().backward()
    got, w.grad = w.grad, None
    convolved(x, w).sum().backward()
    torch.testing.assert_close(got, w.grad)


def test_a_thread_that_calls_while_another_compiles_settles_nothing(monkeypatch):
    f, x = tg.function(affine), torch.arange(4.0)
    seen = []
    compiled = scheduler.Program._compiled

    def slowly(self):
        seen.append(f.concrete_functions[0].settled)
        return compiled(self)

    monkeypatch.setattr(scheduler.Program, "_compiled", slowly)
    warm(f, x, x + 1)
    assert seen == [False]
    assert f.concrete_functions[0].settled


def test_numbers_are_inputs_of_an_entry():
    graph = tg.parse_graph("""main(%0: f32[4], %1: int, %2: float, %3: bool) {
  %4: f32[4] = aten.mul.Tensor(%0, %2)
  %5: f32[4] = aten.add.Tensor(%4, %1)
  %8: f32[4] = If(%3, %5, %0) {
    then(%6: f32[4], %7: f32[4]) {
      return %6
    }
    orelse(%6: f32[4], %7: f32[4]) {
      %9: f32[4] = aten.neg.default(%7)
      return %9
    }
  }
  %10: int = py.add(%1, 1)
  return %8, %10
}""")
    program = scheduler.build(graph)
    x = torch.arange(4.0)
    for _ in range(5):
        program.run(x, 3, 0.5, True)
    call = program.native._whole
    assert call is not None
    for n, scale, sign in [(3, 0.5, True), (-7, -2.0, True), (1, 1e30, False), ((1 << 62) + 1, 0.0, False)]:  # fmt: skip
        found, more = call(x, n, scale, sign)
        assert torch.equal(found, x * scale + n if sign else -x)
        assert more == n + 1
        assert type(more) is int
    wrong = [(1.0, 0.5, True), (1, 1, True), (1, 0.5, 1), (True, 0.5, True), (1 << 63, 0.5, True), (-(1 << 63) - 1, 0.5, True), (None, 0.5, True), (1, X, True)]  # fmt: skip
    for numbers in wrong:
        assert call(x, *numbers) is entry.MISS


def test_a_run_takes_one_tensor_twice():
    graph = tg.parse_graph("""main(%0: f32[4], %1: f32[4]) {
  %2: f32[4] = aten.mul.Tensor(%0, %1)
  return %2
}""")
    program = scheduler.build(graph)
    for _ in range(5):
        program.run(X, X)
    assert torch.equal(program.native._whole(X, X)[0], X * X)


def test_zeros_without_memory(fast):
    """Formulas of torch give zeros as a tensor whose data pointer is null."""
    f, zeros = tg.function(affine), torch._efficientzerotensor((4,))
    for _ in range(5):
        assert f(zeros, X).tolist() == [1] * 4
    assert fast(zeros, X) is entry.MISS
    x = torch.randn(4, requires_grad=True)
    assert not torch.autograd.grad(f(x, X), x, zeros)[0].any()

    def third(f):
        v = torch.tensor([1.0, -2.0, 3.0], requires_grad=True)
        total = f(v).sum()
        for _ in range(3):
            (g,) = torch.autograd.grad(total, v, create_graph=True)
            total = (g * g).sum()
        return g.detach()

    roots = lambda v: v.abs().sqrt()  # noqa: E731
    torch.testing.assert_close(third(tg.function(roots)), third(roots))
