"""torch.func inside of a function, around staged control flow: as torch.func does it around plain Python."""

import pytest
import torch
from torch.func import grad, grad_and_value, hessian, jacfwd, jacrev, jvp, linearize, vjp, vmap

import tograph as tg

D = torch.float64


def search(v, w):
    if v.sum() > 0:
        k = 0
        while v.abs().sum() < 3:
            v = v * 1.5 + (w @ v).sin()
            k += 1
            if k > 5:
                break
        return v.square().sum()
    return (w @ v).sin().sum()


def first(x, w):
    return grad(search)(x, w)


def of_two(x, w):
    return grad(search, argnums=(0, 1))(x, w)


def value_too(x, w):
    return grad_and_value(search)(x, w)


def second(x, w):
    return grad(lambda v: (grad(search)(v, w) ** 2).sum())(x)


def closed_over(x, w):
    return grad(lambda v: (v * x).sum() * grad(lambda u: (u * v * x).sum())(x).sum())(x)


def auxiliary(x, w):
    def f(v):
        y = search(v, w)
        return y, {"twice": y * 2}

    return grad(f, has_aux=True)(x), grad_and_value(f, has_aux=True)(x)


def pytree(x, w):
    def f(p):
        return search(p["x"], p["rest"][0])

    return grad(f)({"x": x, "rest": (w,)})


def in_a_loop(x, w):
    for _ in range(torch.tensor(3)):
        x = x - 0.1 * grad(search)(x, w)
    return x


def in_a_branch(x, w):
    if x.sum() > 0:
        x = grad(search)(x, w)
    return x


def pulled(x, w):
    def f(v):
        for _ in range(torch.tensor(2)):
            v = torch.tanh(w @ v)
        return v, v.sum()

    out, pull = vjp(f, x)
    return out, pull((x, out[1]))


def pushed(x, w):
    def f(v, u):
        for _ in range(torch.tensor(2)):
            v = torch.tanh(u @ v)
        return v

    return jvp(f, (x, w), (torch.ones_like(x), w * 2))


def rows(x, w):
    def f(v):
        if v.sum() > 0:
            return torch.tanh(w @ v)
        return w @ (v * v)

    return jacrev(f)(x), jacfwd(f)(x), hessian(lambda v: f(v).sum())(x)


def straight(x, w):
    return jacrev(lambda v: torch.tanh(w @ v))(x), hessian(lambda v: (w @ v).sin().sum())(x)


def mapped(x, w):
    return vmap(grad(lambda r: (r * x).sin().sum()))(w)


def functional(x, w):
    f = torch.autograd.functional
    return f.jacobian(lambda v: first(v, w) * v, x), f.hessian(lambda v: search(v, w), x)


def no_gradients(x, w):
    with torch.no_grad():
        y = grad(search)(x, w)
    return y, torch.tensor(y.requires_grad)


def unused(x, w):
    return grad(lambda v: (w * 1.0).sum())(x)


PROGRAMS = [first, of_two, value_too, second, closed_over, auxiliary, pytree, in_a_loop, in_a_branch, pulled, pushed, rows,
            straight, mapped, functional, no_gradients, unused]  # fmt: skip


def arguments(sign):
    torch.manual_seed(1)
    return sign * (torch.rand(3, dtype=D) + 0.1), torch.rand(3, 3, dtype=D)


@pytest.mark.parametrize("f", PROGRAMS)
def test_values(f):
    staged = tg.function(f)
    for sign in (1, -1):
        args = arguments(sign)
        torch.testing.assert_close(staged(*args), f(*args))
    assert staged.trace_count == 1


@pytest.mark.parametrize(
    "f", [first, second, value_too, closed_over, in_a_loop, in_a_branch, pushed, rows]
)
def test_gradients_around(f):
    found = []
    for g in (f, tg.function(f)):
        args = [a.requires_grad_() for a in arguments(1)]
        leaves = [x for x in torch.utils._pytree.tree_leaves(g(*args)) if x.requires_grad]
        total = sum(x.sin().sum() for x in leaves)
        found.append([len(leaves), *torch.autograd.grad(total, args, allow_unused=True)])
    torch.testing.assert_close(*found)


def test_errors_are_those_of_torch():
    with pytest.raises(RuntimeError, match="scalar tensor"):
        tg.function(lambda x: grad(lambda v: v * 2)(x))(torch.ones(2))
    with pytest.raises(RuntimeError, match="only Tensors of floating point"):
        tg.function(lambda x: grad(lambda v: v.sum())(x))(torch.ones(2, dtype=torch.int64))


def training_inside(x, p, layer, optimizer):
    def loss(x):
        if p:
            optimizer.zero_grad()
            layer(x.detach()).square().sum().backward()
            optimizer.step()
        return layer(x).square().sum()

    return torch.func.grad(loss)(x)


@pytest.mark.parametrize("p", [True, False])
def test_backward_inside_is_refused_as_in_eager(p):
    def run(f, p):
        torch.manual_seed(0)
        layer = torch.nn.Linear(3, 1)
        optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
        try:
            found = f(torch.ones(3), p, layer, optimizer).detach().tolist()
        except RuntimeError as error:
            found = str(error).splitlines()[0][:60]
        return found, [x.detach().tolist() for x in layer.parameters()]

    assert run(tg.function(training_inside), torch.tensor(p)) == run(training_inside, p)


WEIGHT = torch.tensor([1.0, 2.0], dtype=D, requires_grad=True)


def of_a_captured_leaf(x):
    return (grad(lambda w: (w**3 * x).sum())(WEIGHT) * x).sum()


def of_one_that_is_passed_too(w, x):
    return of_a_captured_leaf(x) + w.sum()


def test_history_of_a_captured_leaf_goes_on():
    x = torch.tensor([0.5, 2.0], dtype=D)
    for f, args in ((of_a_captured_leaf, (x,)), (of_one_that_is_passed_too, (WEIGHT, x))):
        staged = tg.function(f)
        for _ in range(2):
            expected = torch.autograd.grad(f(*args), WEIGHT)
            torch.testing.assert_close(torch.autograd.grad(staged(*args), WEIGHT), expected)


class Deciding(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(2, 2)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x, *, times=1.0):
        self.calls = self.calls + 1
        h = self.layer(x)
        if h.mean() > 0:
            h = h * times
        while h.norm() < 4:
            h = h * 2
        return h


def test_functional_call_of_a_module_with_staged_control_flow():
    torch.manual_seed(0)
    model = Deciding().double()
    given = dict(model.named_parameters())

    def adapted(p, x, calls):
        def loss(p, b):
            return torch.func.functional_call(model, (p, b), (x,), {"times": 3.0}).square().mean()

        held = {"calls": calls}
        for _ in range(2):
            g = grad(loss)(p, held)
            p = {n: p[n] - 0.01 * g[n] for n in p}
        return loss(p, held), held["calls"]

    staged = tg.function(adapted)
    for i in range(3):
        x, calls = torch.randn(3, 2, dtype=D), torch.tensor(float(i))
        (expected, n), (found, m) = adapted(given, x, calls), staged(given, x, calls)
        assert n == m
        torch.testing.assert_close(found, expected)
        both = [torch.autograd.grad(y, list(given.values())) for y in (found, expected)]
        torch.testing.assert_close(*both)
    assert model.calls == 0 and staged.trace_count == 1


def test_maps_in_maps_and_under_staged_conditions():
    def f(x, n):
        y = torch.vmap(torch.vmap(lambda u: u * 2 + 1))(x)
        for _ in range(n):
            if y.sum() > 0:
                y = torch.vmap(lambda u, v: u * v.sum(), in_dims=(0, None))(y, x[0])
        return y

    x, n = torch.rand(3, 2), torch.tensor(2)
    torch.testing.assert_close(tg.function(f)(x, n), f(x, n))


def doubled(tree):
    return {"a": tree["p"].sin() * tree["p"], "b": [tree["q"].exp()]}


def of_tree(x, t):
    value, push = linearize(doubled, {"p": x, "q": x * 3})
    return value, push({"p": t, "q": t * t}), push({"p": t * 2, "q": t})


@pytest.mark.filterwarnings("ignore:Attempted to insert a get_attr Node")  # torch's own linearize
def test_linearize():
    x, t = torch.rand(3, dtype=D), torch.rand(3, dtype=D)
    got, want = tg.function(of_tree)(x, t), of_tree(x, t)
    torch.testing.assert_close(got, want)


def test_linearize_through_loops():
    """torch's own traces plain code only: compared with jvp."""

    def f(x, t):
        value, push = linearize(lambda x: search(x, torch.eye(3, dtype=D)), x)
        if t.sum() > 0:
            t = t * 3
        return value, push(t) + push(-t * 2)

    x, t = torch.rand(3, dtype=D).requires_grad_(), torch.rand(3, dtype=D)
    value, total = tg.function(f)(x, t)
    want, slope = jvp(lambda x: search(x, torch.eye(3, dtype=D)), (x.detach(),), (t,))
    torch.testing.assert_close((value.detach(), total.detach()), (want, slope * -3))
    torch.autograd.gradcheck(lambda x: tg.function(f)(x, t), (x,))


def test_linearize_in_a_loop():
    @tg.function
    def f(x, t, n):
        value, push = linearize(lambda x: x.sin().sum(), x)
        total, k = torch.zeros((), dtype=D), 0
        while k < n:
            total = total + push(t * k)
            k += 1
        return total

    x, t = torch.rand(3, dtype=D), torch.rand(3, dtype=D)
    torch.testing.assert_close(f(x, t, torch.tensor(3)), (x.cos() * t).sum() * 3)


@pytest.mark.filterwarnings("ignore:Attempted to insert a get_attr Node")  # torch's own linearize
def test_linearize_runs_its_function_twice(capsys):
    def noisy(x):
        print("runs")
        return x * 2

    def f(x):
        value, push = linearize(noisy, x)
        return value + push(x)

    tg.function(f)(torch.ones(2))
    assert capsys.readouterr().out == "runs\nruns\n"
    f(torch.ones(2))
    assert capsys.readouterr().out == "runs\nruns\n"


@pytest.mark.filterwarnings("ignore:Attempted to insert a get_attr Node")  # torch's own linearize
@pytest.mark.parametrize("bad", ["torch.ones(2)", "torch.arange(3)", "[x]", "(x, x)"])
def test_tangents_that_are_not_like_the_primals(bad):
    def f(x, tangents):
        value, push = linearize(torch.sin, x)
        return push(*tangents) if isinstance(tangents, tuple) else push(tangents)

    x = torch.ones(3)
    tangents = eval(bad, {"torch": torch, "x": x})
    with pytest.raises(RuntimeError) as want:
        f(x, tangents)
    with pytest.raises(RuntimeError) as got:
        tg.function(f)(x, tangents)
    assert str(want.value) in str(got.value)


def test_functional_call_of_parameters_that_a_loop_replaces():
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1)).to(D)
    start = {k: v.detach() for k, v in net.named_parameters()}
    x = torch.linspace(-1, 1, 12, dtype=D).reshape(4, 3)

    def adapted(params, x, n):
        def loss(p):
            return (torch.func.functional_call(net, p, (x,)) - x.sum(1, True)).square().mean()

        for _ in range(n):
            g = grad(loss)(params)
            params = {k: params[k] - 0.1 * g[k] for k in params}
        return params, loss(params)

    staged = tg.function(adapted)
    for n in (0, 1, 3):
        torch.testing.assert_close(staged(start, x, torch.tensor(n)), adapted(start, x, n))


def test_what_is_none_before_a_loop_that_makes_it_a_tensor():
    def f(x, n):
        for _ in range(n):
            best = None
            for _ in range(n):
                x = x - 0.1 * grad(lambda v: (v * v).sum())(x)
                if best is None or x.sum() > best.sum():
                    best = x * 0.9
            if best is not None:
                x = best
        return x

    staged, x = tg.function(f), torch.tensor([0.3, 0.5])
    for n in (0, 2):
        torch.testing.assert_close(staged(x, torch.tensor(n)), f(x, n))


@pytest.mark.parametrize("x", [None, 3.0, torch.tensor(3)])
def test_what_has_no_derivative_raises_what_torch_raises(x):
    def f(x, c):
        return grad(lambda v: v * 1.0)(x) if c else torch.zeros(())

    for g in (f, tg.function(f)):
        with pytest.raises((ValueError, RuntimeError), match="must be Tensor|floating point"):
            g(x, torch.tensor(True))
        assert g(x, torch.tensor(False)) == 0


def test_a_derivative_that_does_not_depend_on_the_point_requires_a_gradient_as_in_eager():
    def f(x):
        t = torch.ones(2)
        along = [
            lambda y: y * 3,
            lambda y: torch.ones(2, 2) @ y,
            lambda y: y + 1,
            lambda y: y.sum(),
        ]
        pushed = [torch.func.jvp(g, (x,), (t,))[1] for g in along]
        rows = torch.func.jacfwd(lambda y: y / 2)(x), torch.func.jacrev(lambda y: y * 3)(x)
        return *pushed, *rows, torch.func.hessian(lambda y: (y * y).sum())(x)

    x = torch.tensor([1.0, 0.5], requires_grad=True)
    found, expected = tg.function(f)(x), f(x)
    torch.testing.assert_close(found, expected)
    assert [y.requires_grad for y in found] == [y.requires_grad for y in expected]
    assert torch.autograd.grad(found[0].sum(), x)[0].tolist() == [0, 0]


def test_jacobians_of_forward_mode_lie_in_memory_as_in_torch():
    def f(x, s, n):
        def g(a, b):
            for _ in range(n):
                a = a.sin() * a.sum()
            return a.outer(a) * b, (a * b).sum()

        of_dict = jacfwd(lambda d: d["w"] @ d["b"])({"w": x.outer(x), "b": x})
        twice = jacfwd(jacfwd(lambda a: a.outer(a)))(x)
        each = vmap(jacfwd(lambda a: a.sin() * a.sum()))(x.outer(x))
        return (
            *jacfwd(g, argnums=(0, 1))(x, s),
            of_dict,
            twice,
            each,
            jacfwd(lambda a: a * 2)(x[:0]),
            hessian(lambda a: g(a, s)[1])(x),
        )

    args = torch.ones(3, dtype=D), torch.tensor(2.0, dtype=D), torch.tensor(2)
    found, expected = tg.function(f)(*args), f(*args)
    torch.testing.assert_close(found, expected)
    leaves = torch.utils._pytree.tree_leaves
    assert [y.stride() for y in leaves(found)] == [y.stride() for y in leaves(expected)]


TRANSFORMED = {
    "grad": lambda p: grad(lambda v: v.exp().sum())(p),
    "vjp": lambda p: vjp(torch.exp, p)[1](p)[0],
    "jvp": lambda p: jvp(torch.exp, (p,), (p,))[1],
    "jacobian": lambda p: jacrev(torch.exp)(p).sum(0),
    "jacfwd": lambda p: jacfwd(torch.exp)(p).sum(0),
}


@pytest.mark.parametrize("name", TRANSFORMED)
def test_what_is_computed_of_a_differentiated_tensor_of_the_code_requires_no_gradient(name):
    def straight(x):
        p = torch.ones(3)
        return p + TRANSFORMED[name](p), p * 2

    def looped(x):
        p, k = torch.ones(3), 0
        while k < 3:
            p = p + TRANSFORMED[name](p) * 0.1
            k += 2 if p[0] > x[0] else 1
        return p, p * 2

    for f in (straight, looped):
        x = torch.ones(3)
        for got, expected in zip(tg.function(f)(x), f(x)):
            assert not got.requires_grad
            torch.testing.assert_close(got, expected)
