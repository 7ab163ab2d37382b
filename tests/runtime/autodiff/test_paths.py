"""Which results require grad, and which tensors get a gradient or None, where the path to them is one that a run takes."""

import itertools

import pytest
import torch

import tograph as tg


def branch(x, w, v, n):
    return x * 2 if n > 1 else w * 3


def detached(x, w, v, n):
    if n > 1:
        y = x.detach() * 2
    else:
        y = w * 3
    return y


def nested(x, w, v, n):
    y = x.sin()
    if n > 0:
        if n > 2:
            y = y * w
        else:
            y = w * v
    return y


def early(x, w, v, n):
    h = x * w
    if n > 1:
        return h
    return h * v


def case(x, w, v, n):
    match n:
        case 0:
            return x.sin()
        case 1:
            return (w * v).cos()
        case _:
            return v.detach()


def trips(x, w, v, n):
    for _ in range(n):
        x = torch.tanh(x * w + v)
    return x * 2


def late(x, w, v, n):
    y, z = torch.zeros_like(x), x * 1
    for i in range(n):
        if i > 1:
            y = y + z * w
        z = z * v
    return y, z


def by_turns(x, w, v, n):
    a, b = x, w.detach()
    while n > 0:
        a, b = b * 2, a * v
        n = n - 1
    return a, b


def inner_loop(x, w, v, n):
    y = x.detach()
    for i in range(n):
        for _ in range(i):
            y = y + w
        if y.sum() > 100:
            y = y * v
    return y


@tg.function
def helper(x, w, n):
    return x if n > 1 else w.exp()


def called(x, w, v, n):
    return helper(x, v, n) * 2, helper(w, v.detach(), n) + 1


def caught(x, w, v, n):
    try:
        y = x * w
        if n > 1:
            raise ValueError
    except ValueError:
        y = v.sin()
    return y


PROGRAMS = [
    branch,
    detached,
    nested,
    early,
    case,
    trips,
    late,
    by_turns,
    inner_loop,
    called,
    caught,
]


def history(f, n, result, requires=(True, True, True), create=False):
    """What results require, and what their gradients, and those of one more order, are; or the error.

    The second ones are zeros where there are none: there a graph does not tell one from the other.
    """
    torch.manual_seed(3)
    args = [torch.randn(3, dtype=torch.float64).requires_grad_(r) for r in requires]
    wrt = [x for x in args if x.requires_grad]
    found = f(*args, torch.tensor(n))
    results = found if isinstance(found, tuple) else (found,)
    seen = [x.requires_grad for x in results]
    try:
        one = results[result % len(results)].square().sum()
        grads = torch.autograd.grad(one, wrt, create_graph=create, allow_unused=True)
        seen += grads
        if create:
            again = sum(g.sin().sum() for g in grads if g is not None)
            seen += torch.autograd.grad(again, wrt, allow_unused=True, materialize_grads=True)
    except RuntimeError as error:
        seen.append(str(error))
    return seen


def plain(x):
    return "a tensor" if isinstance(x, torch.Tensor) else x


def compare(got, want, how):
    plain = [
        ["a tensor" if isinstance(x, torch.Tensor) else x for x in seen] for seen in (got, want)
    ]
    assert plain[0] == plain[1], how
    for a, b in zip(got, want):
        if isinstance(a, torch.Tensor):
            torch.testing.assert_close(a, b)


@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_as_in_eager(f):
    function = tg.function(f)
    asked = (True, True, True), (False, True, False)
    for how in itertools.product(range(4), (0, 1), asked, (False, True)):
        compare(history(function, *how), history(f, *how), how)


def test_optimisers_leave_what_has_no_gradient():
    def train(decorator):
        torch.manual_seed(0)
        net = torch.nn.ModuleList([torch.nn.Linear(4, 4) for _ in range(3)])

        @decorator
        def loss(x):
            h = net[0](x).tanh()
            if h.sum() > 0:
                return h.square().mean()
            h = net[1](h).relu()
            while h.sum() > 3:
                h = net[2](h) * 0.5
            return h.mean()

        kinds = torch.optim.AdamW, lambda p: torch.optim.SGD(p, 0.1, 0.9, weight_decay=0.1)
        opts = [kind(net.parameters()) for kind in kinds]
        seen = []
        for k in range(8):
            x = torch.randn(3, 4)
            for opt in opts:
                opt.zero_grad()
                loss(x).backward()
                seen.append([p.grad is None for p in net.parameters()])
                opt.step()
        return seen, [p.detach() for p in net.parameters()], [o.state_dict()["state"] for o in opts]

    got, want = train(tg.function), train(lambda f: f)
    assert any(map(any, want[0])) and any(not all(x) for x in want[0])
    assert got[0] == want[0]
    torch.testing.assert_close(got[1:], want[1:])


def test_a_result_that_nothing_cares_for_gives_none():
    @tg.function
    def f(x, w):
        h = x.exp()
        return h * 2, h * w

    x, w = (torch.ones(2, requires_grad=True) for _ in range(2))
    a, b = f(x, w)
    a.sum().backward()
    assert w.grad is None and x.grad is not None


def of_hooks(f, n):
    """What hooks on arguments, on what these were computed from and on parameters see."""
    seen = []
    x, w, v = (torch.full((2,), k, requires_grad=True) for k in (1.0, 2.0, 3.0))
    h = v * 2
    for name, t in {"x": x, "w": w, "v": v, "h": h}.items():
        t.register_hook(lambda g, name=name: seen.append((name, g.tolist())))
    for name, t in {"x": x, "w": w, "v": v}.items():
        t.register_post_accumulate_grad_hook(lambda p, name=name: seen.append((name, p.grad.sum())))
    y, z = f(x, w, h, torch.tensor(n))
    (y.sum() + z.sum()).backward()
    return sorted(seen, key=str), [x.grad, w.grad, v.grad]


@pytest.mark.parametrize("n", range(4))
def test_hooks_are_called_where_a_gradient_comes(n):
    assert str(of_hooks(tg.function(late), n)) == str(of_hooks(late, n))
