"""The short way of calls that are joined with autograd: taken where it can be, from machine code on, and as eager PyTorch everywhere."""

import gc
import weakref

import pytest
import torch

import tograph as tg
from tograph.runtime.autodiff.direct import Direct
from tograph.runtime.functions.function import Function
from tograph.runtime.native import entry, layout

fast = pytest.mark.skipif(
    layout.layout() is None or entry._symbols() is None, reason="this torch has another layout"
)


def dense(x, w, b):
    return torch.tanh(x @ w + b) ** 2


def looped(x, w, b):
    h, i = x, 0
    while i < 4 and h.abs().sum() > 0.1:
        h = torch.tanh(h @ w + b)
        i += 1
    return h


def several(x, w, b):
    y = x @ w
    return y * b, (y > 0).sum(), y.sin()


def drawn(x, w, b):
    return torch.dropout(x @ w, 0.5, True) * b


def some_iterations(x, w, b):
    y, n = x * 2, 0
    while n < b[0]:
        y, n = y * w[0], n + 1
    return y


def rectified(x, w, b):
    return torch.relu(x @ w + b)  # saved, too


def turned(x, w, b):
    return torch.sin(x @ w * b).t(), x.view(-1), w


def branched(x, w, b):
    y = x @ w
    if b[0] > 0.9:
        return (y * b).exp()
    return y + b


def apart(x, w, b):
    """Results that share no node of autograd, with a branch in one of them."""
    y = x.sum() * b
    return torch.tanh(x @ w), y * y if y.sum() > 0 else y.sin()


def linear(x, w, b):
    return (w - x.sum()).flip(0) + b  # nothing is saved


def by_torch(x, w, b):
    return torch.i0(w)  # the host runs it


PROGRAMS = [dense, looped, several, drawn, some_iterations, rectified, turned, branched, apart, linear, by_torch]  # fmt: skip


def inputs(seed=0):
    g = torch.Generator().manual_seed(seed)
    x, w, b = (torch.randn(n, generator=g) for n in ((3, 4), (4, 4), (4,)))
    return x, w.requires_grad_(), b.abs().add_(0.5).requires_grad_()


def warm(program):
    """A function that has gone the short way, as calls go on."""
    f = tg.function(program)
    for _ in range(6):
        gradients(f, *inputs())
    return f


def gradients(f, x, w, b, taken=None):
    torch.manual_seed(3)
    found = f(x, w, b)
    results = found if isinstance(found, tuple) else (found,)
    of = [r for k, r in enumerate(results) if r.requires_grad and (taken is None or k in taken)]
    got = torch.autograd.grad(sum(r.sin().sum() for r in of), [w, b], allow_unused=True)
    return [*(r.detach() for r in results), *got]


def same(got, expected):
    assert len(got) == len(expected)
    for a, e in zip(got, expected):
        assert (a is None) == (e is None)
        if a is not None:
            torch.testing.assert_close(a, e, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("program", PROGRAMS)
def test_as_eager(program):
    f = warm(program)
    for seed in range(3):
        same(gradients(f, *inputs(seed)), gradients(program, *inputs(seed)))


@fast
@pytest.mark.parametrize("program", [dense, looped, several, drawn, rectified, branched, apart, linear, by_torch])  # fmt: skip
def test_calls_begin_in_machine_code(program, monkeypatch):
    f = warm(program)
    expected = gradients(program, *inputs(1))
    monkeypatch.setattr(Function, "_result", None)  # where Python takes a call
    same(gradients(f, *inputs(1)), expected)


@fast
def test_sizes_that_only_the_run_knows(monkeypatch):
    specs = [tg.TensorSpec((n, 4), torch.float32) for n in (None, 4)] + [tg.TensorSpec((4,), torch.float32)]  # fmt: skip
    f = tg.function(rectified, input_signature=specs)
    for rows in (3, 2, 3, 2, 3, 2):
        x, w, b = inputs()
        gradients(f, x[:rows], w, b)
    monkeypatch.setattr(Function, "_result", None)
    for rows in (1, 2, 3):
        x, w, b = inputs(rows)
        same(gradients(f, x[:rows], w, b), gradients(rectified, x[:rows], w, b))


def test_a_second_gradient():
    saving, not_saving = warm(by_torch)(*inputs()), warm(linear)(*inputs())
    for _ in range(2):  # as in eager PyTorch
        not_saving.backward(torch.ones(4, 4))
    saving.backward(torch.ones(4, 4))
    with pytest.raises(RuntimeError, match="second time"):
        saving.backward(torch.ones(4, 4))


@pytest.mark.parametrize("program", [linear, by_torch])
def test_gradients_of_many(program):
    f = warm(program)
    found = []
    for called in (program, f):
        x, w, b = inputs()
        many = torch.eye(16).view(16, 4, 4)
        found.append(torch.autograd.grad(called(x, w, b), [w], many, is_grads_batched=True))
    same(*found)


def test_a_view_that_is_written_outside():
    f = warm(turned)
    x, w, b = inputs()
    y = f(x, w, b)[0]
    y.mul_(2)
    same(torch.autograd.grad(y.sum(), [w, b]), torch.autograd.grad(2 * turned(x, w, b)[0].sum(), [w, b]))  # fmt: skip


@fast
def test_with_containers_and_keywords(monkeypatch):
    def program(x, *, parts):
        return {"y": x @ parts["w"] + parts["b"]}

    f = tg.function(program)
    x, w, b = inputs()
    for _ in range(8):
        f(x, parts={"w": w, "b": b})
    monkeypatch.setattr(Function, "_result", None)
    got = torch.autograd.grad(f(x, parts={"w": w, "b": b})["y"].sin().sum(), [w, b])
    same(got, torch.autograd.grad((x @ w + b).sin().sum(), [w, b]))


@fast
def test_a_module(monkeypatch):
    net = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU(), torch.nn.Linear(3, 1))
    f = tg.function(lambda x: net(x).mean())
    x = inputs()[0]
    for _ in range(6):
        f(x).backward()
    net.zero_grad()
    monkeypatch.setattr(Function, "_result", None)
    f(x).backward()
    monkeypatch.undo()
    got = [p.grad for p in net.parameters()]
    same(got, torch.autograd.grad(net(x).mean(), list(net.parameters())))
    net[0].weight.requires_grad_(False)  # another set of leaves
    assert f(x).requires_grad
    net.requires_grad_(False)
    assert not f(x).requires_grad


@pytest.mark.parametrize("program", [dense, looped])
def test_which_leaves_there_are_decides_anew(program):
    f = warm(program)
    x, w, b = inputs(2)
    with torch.no_grad():
        assert f(x, w, b).grad_fn is None
    for leaves in ([x], [x, w], [b], [w, b]):
        for t in (x, w, b):
            t.requires_grad_(any(t is leaf for leaf in leaves))
        for _ in range(2):
            got = torch.autograd.grad(f(x, w, b).sin().sum(), leaves)
            same(got, torch.autograd.grad(program(x, w, b).sin().sum(), leaves))
    for t in (x, w, b):
        t.requires_grad_(False)
    assert not f(x, w, b).requires_grad


def test_a_gradient_of_some_results():
    f = warm(several)
    for taken in ([0], [2], [0, 2]):
        same(gradients(f, *inputs(1), taken), gradients(several, *inputs(1), taken))
    f = warm(apart)
    for taken in ([0], [1]):
        same(gradients(f, *inputs(1), taken), gradients(apart, *inputs(1), taken))


@pytest.mark.parametrize("program", PROGRAMS)
def test_gradients_of_gradients(program):
    def second(f, x, w, b):
        torch.manual_seed(5)
        out = f(x, w, b)
        y = out[0] if isinstance(out, tuple) else out
        first = torch.autograd.grad(y.sin().sum(), [w, b], create_graph=True, allow_unused=True)
        total = sum(g.square().sum() for g in first if g is not None and g.requires_grad)
        return [*first, *torch.autograd.grad(total, [w, b], allow_unused=True)]

    f = warm(program)
    same(second(f, *inputs(1)), second(program, *inputs(1)))


def test_what_was_saved_and_written_since_is_refused():
    f = warm(dense)
    x, w, b = inputs()
    y = f(x, w, b).sum()
    x.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


def test_what_only_the_other_branch_saves_may_be_written():
    f = tg.function(lambda w, k, c: w * k if c > 0 else w + k)
    w = torch.ones(3, requires_grad=True)
    for c in (1.0, -1.0) * 4:
        k = torch.ones(3)
        y = f(w, k, torch.tensor(c)).sum()
        k.add_(1)
        if c > 0:
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                y.backward()
        else:
            assert torch.equal(torch.autograd.grad(y, w)[0], torch.ones(3))


def test_a_second_gradient_needs_what_was_saved():
    f = warm(looped)
    x, w, b = inputs()
    y = f(x, w, b).sum()
    first = torch.autograd.grad(y, [w, b], retain_graph=True)
    same(torch.autograd.grad(y, [w, b]), first)
    with pytest.raises(RuntimeError, match="a second time"):
        torch.autograd.grad(y, [w, b])


class Nothing(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        return None


@pytest.mark.parametrize("wrap", [lambda f: f, warm])
def test_what_was_saved_is_freed_where_no_gradient_comes(wrap):
    y = wrap(dense)(*inputs())
    Nothing.apply(y).sum().backward()
    with pytest.raises(RuntimeError, match="a second time"):
        y.sum().backward()


def test_an_iteration_that_did_not_take_place():
    f = warm(some_iterations)
    x, w, b = inputs()
    b = torch.full((4,), -1.0)
    x.requires_grad_()
    assert torch.equal(torch.autograd.grad(f(x, w, b).sum(), x)[0], torch.full((3, 4), 2.0))
    got = torch.autograd.grad(f(x, w, b).sum(), [x, w], allow_unused=True)
    assert got[1] is None


def test_hooks_and_accumulation():
    seen, f = [], warm(dense)
    x, w, b = inputs()
    w.register_hook(lambda g: seen.append(g.clone()))
    for _ in range(2):
        f(x, w, b).sum().backward()
    expected = torch.autograd.grad(dense(x, w.detach().requires_grad_(), b).sum(), b)[0]
    assert len(seen) == 2
    torch.testing.assert_close(b.grad, 2 * expected)
    torch.testing.assert_close(w.grad, seen[0] + seen[1])


@fast
def test_buffers_that_are_written(monkeypatch):
    def trained(make, then):
        torch.manual_seed(0)
        net = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3))
        f = make(lambda x: net(x).sin().sum())
        for seed in range(9):
            if seed == 6:
                then()
            f(inputs(seed)[0]).backward()
        return [p.grad for p in net.parameters()] + list(net.buffers())

    got = trained(tg.function, lambda: monkeypatch.setattr(Function, "_result", None))
    same(got, trained(lambda f: f, lambda: None))


def test_a_result_holds_no_batch_that_its_gradient_has_used():
    """As of a list of losses that are kept."""
    w = torch.randn(4, 4, requires_grad=True)
    f, losses, batches = tg.function(lambda x, w: torch.tanh(x @ w).sum()), [], []
    for _ in range(8):
        x = torch.randn(3, 4)
        loss = f(x, w)
        loss.backward()
        losses.append(loss)
        batches.append(weakref.ref(x))
    del x
    gc.collect()
    assert all(b() is None for b in batches[-3:])


def test_it_is_taken(monkeypatch):
    taken, run = [], Direct.run

    def noted(self, given):
        taken.append(run(self, given) is not None)
        return run(self, given)

    monkeypatch.setattr(Direct, "run", noted)
    warm(dense)
    assert taken[-1]


def test_under_vmap_and_forward_mode():
    f = warm(dense)
    x, w, b = inputs()
    xs = torch.stack([x, x * 2])
    torch.testing.assert_close(torch.func.vmap(f, (0, None, None))(xs, w, b), torch.stack([dense(x, w, b), dense(x * 2, w, b)]))  # fmt: skip
    got = torch.func.jvp(lambda w: f(x, w, b), (w,), (torch.ones_like(w),))[1]
    torch.testing.assert_close(got, torch.func.jvp(lambda w: dense(x, w, b), (w,), (torch.ones_like(w),))[1])  # fmt: skip
    rows = torch.autograd.grad(f(x, w, b), w, torch.ones(2, 3, 4), is_grads_batched=True)[0]
    torch.testing.assert_close(rows[0], torch.autograd.grad(dense(x, w, b).sum(), w)[0])
