"""Gradients taken inside of a function: autograd.grad, backward(), optimisers, whole training loops in one graph."""

import copy

import pytest
import torch

import tograph as tg


def same(f, *args):
    same_by_one(tg.function(f), f, *args)


def same_by_one(staged, f, *args):
    got = staged(*[a.clone() for a in args])
    torch.testing.assert_close(got, f(*[a.clone() for a in args]))


def arguments():
    torch.manual_seed(0)
    return torch.randn(2, 3, dtype=torch.float64), torch.randn(3, 3, dtype=torch.float64)


def through_if(x, w, n):
    w = w.requires_grad_()
    h = x @ w
    if h.sum() > n:
        y = h.sin()
    else:
        y = h * h
    (g,) = torch.autograd.grad(y.sum(), [w], create_graph=True)
    (gg,) = torch.autograd.grad((g * g).sum(), [w], create_graph=True)
    (ggg,) = torch.autograd.grad((gg * g).sum(), [w])
    return g, gg, ggg


def through_while(x, w, n):
    w = w.requires_grad_()
    y, i = x * w.sum(), 0
    while i < n:
        if y.sum() > 0:
            y = torch.tanh(y @ w) + x
        else:
            y = y * 1.5 + w.sum()
        i += 1
    (g,) = torch.autograd.grad(y.square().sum(), [w], create_graph=True)
    return (g, *torch.autograd.grad((g * g).sum(), [w]))


def through_list(x, w, n):
    w = w.requires_grad_()
    out = [x @ w]
    for i in range(n):
        out.append((x @ w * i).sin())
    (g,) = torch.autograd.grad(torch.stack(out).square().sum(), [w], create_graph=True)
    return (g, *torch.autograd.grad((g * g).sum(), [w]))


def in_a_branch(x, w, n):
    w = w.requires_grad_()
    y = x @ w
    if n > 1:
        z = y.sin()
        for _ in range(n):
            z = z * y
        (g,) = torch.autograd.grad(z.sum(), [w], retain_graph=True)
    else:
        g = w.detach() * 2
    return g + torch.autograd.grad(y.sum(), [w])[0]


def descent(x, w, n):
    loss = torch.zeros(())
    for _ in range(n):
        w = w.detach().requires_grad_()
        loss = (x @ w).sin().square().sum()
        (g,) = torch.autograd.grad(loss, w)
        w = w - 0.1 * g
        if loss < 1:
            break
    return w.detach(), loss.detach()


def meta_learning(x, w, n):
    w = w.requires_grad_()
    fast = w * 1.0
    for _ in range(n):
        (g,) = torch.autograd.grad((x @ fast).sin().square().sum(), fast, create_graph=True)
        fast = fast - 0.1 * g
    return torch.autograd.grad((x @ fast).cos().sum(), [w])[0]


def writes_in_place(x, w, n):
    w = w.requires_grad_()
    y = torch.zeros_like(w) + w[2]
    for i in range(n):
        y[i] = x[0].sin() * w[0]
    if n > 1:
        y[0] *= w[1]
    return torch.autograd.grad((y * y).sum(), [w])[0]


def activations_in_place(x, w, n):
    w = w.requires_grad_()
    y = (x @ w).sigmoid_()
    z = torch.nn.functional.elu(x @ w, inplace=True)
    for _ in range(n):
        z = (z * y).tanh_()
    return torch.autograd.grad((y * z).sum(), [w])[0]


def calls(x, w, n):
    w = w.requires_grad_()

    @tg.function
    def layer(y):
        return torch.tanh(y @ w) if y.sum() > 0 else y @ w

    y = x
    for _ in range(n):
        y = layer(y)
    return torch.autograd.grad((layer(y) * y).sum(), [w])[0]


@pytest.mark.parametrize(
    "f",
    [
        through_if,
        through_while,
        through_list,
        in_a_branch,
        descent,
        meta_learning,
        writes_in_place,
        activations_in_place,
        calls,
    ],
)
def test_autograd_grad(f):
    staged = tg.function(f)
    for n in (0, 1, 3):
        same_by_one(staged, f, *arguments(), torch.tensor(n))
    assert staged.trace_count == 1


def test_outside_of_inside():
    x, w = arguments()
    found = []
    for f in (meta_learning, tg.function(meta_learning)):
        z = x.clone().requires_grad_()
        step = f(z, w.clone().requires_grad_() * 1, torch.tensor(2))
        found.append(step.detach())
    torch.testing.assert_close(*found)


# ---- backward() and .grad


def training(optimiser, body, calls):
    """(results, parameters, gradients) of calls, natively and converted."""
    found = []
    for convert in (False, True):
        torch.manual_seed(0)
        net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
        opt = optimiser(net.parameters())

        def step(*args, net=net, opt=opt):
            return body(net, opt, *args)

        f = tg.function(step) if convert else step
        results = [f(*args) for args in calls]
        found.append(
            (results, [p.detach() for p in net.parameters()], [p.grad for p in net.parameters()])
        )
    torch.testing.assert_close(*found)
    return f.trace_count


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=0.1)


def data():
    torch.manual_seed(1)
    return torch.randn(4, 3), torch.randn(4, 1)


def one_step(net, opt, x, y):
    opt.zero_grad()
    loss = ((net(x) - y) ** 2).mean()
    loss.backward()
    opt.step()
    return loss.detach()


def many_steps(net, opt, x, y, n):
    loss = torch.zeros(())
    for _ in range(n):
        opt.zero_grad()
        loss = ((net(x) - y) ** 2).mean()
        loss.backward()
        opt.step()
        if loss < 0.5:
            break
    return loss.detach()


def accumulating(net, opt, x, y):
    loss = ((net(x) - y) ** 2).mean()
    loss.backward()
    return loss.detach()


def conditional(net, opt, x, y):
    opt.zero_grad()
    loss = ((net(x) - y) ** 2).mean()
    if loss > 0.3:
        loss.backward()
        opt.step()
    return loss.detach()


def clipped(net, opt, x, y):
    opt.zero_grad(set_to_none=False)
    ((net(x) - y) ** 2).mean().backward()
    torch.nn.utils.clip_grad_norm_(net.parameters(), 0.1)
    opt.step()
    return net(x).detach()


def test_training_step():
    assert training(sgd, one_step, [data()] * 4) == 1


@pytest.mark.parametrize("body", [accumulating, conditional, clipped])
def test_gradient_fields(body):
    training(sgd, body, [data()] * 4)


def test_training_loop_in_one_graph():
    trips = [3, 0, 20]
    assert training(sgd, many_steps, [(*data(), torch.tensor(n)) for n in trips]) == 1


def test_optimiser_with_state():
    training(torch.optim.Adam, one_step, [data()] * 4)


def test_accumulation_over_zeroed_fields_does_not_trace_anew():
    w = torch.ones(2, requires_grad=True)

    @tg.function
    def f(x):
        (w * x).sum().backward()

    for _ in range(3):
        w.grad = None
        for k in range(3):
            f(torch.ones(2))
            assert w.grad.tolist() == [k + 1] * 2
    assert f.trace_count == 2


def test_grad_field_of_an_argument():
    @tg.function
    def f(x):
        (x * x).sum().backward()
        return x.grad * 2

    for _ in range(2):
        x = torch.ones(2, requires_grad=True)
        assert f(x).tolist() == [4, 4]
        assert x.grad.tolist() == [2, 2]


def test_nothing_symbolic_is_left_when_tracing_fails():
    w = torch.ones(2, requires_grad=True)

    @tg.function
    def f(x):
        (w * x).sum().backward()
        raise KeyError("no")

    with pytest.raises(KeyError):
        f(torch.ones(2))
    assert w.grad is None or type(w.grad) is torch.Tensor


def test_errors_are_those_of_eager():
    @tg.function
    def f(x):
        torch.autograd.grad(x * 2, x)

    with pytest.raises(RuntimeError, match="scalar outputs"):
        f(torch.ones(2, requires_grad=True))

    @tg.function
    def g(x):
        y = x.sin()
        z = y.exp()
        z.add_(1)
        return torch.autograd.grad(z.sum(), x)[0]

    with pytest.raises(RuntimeError, match="inplace"):
        g(torch.ones(2, requires_grad=True))

    @tg.function
    def h(x):
        return torch.autograd.grad((x.long() * 2.0).sum(), x)[0]

    with pytest.raises(RuntimeError, match="does not require grad"):
        h(torch.ones(2, requires_grad=True))


def test_modules_are_left_as_they_were():
    net = torch.nn.Linear(2, 2)
    before = copy.deepcopy(net.state_dict())
    tg.function(lambda x: torch.autograd.grad(net(x).sum(), list(net.parameters())))(
        torch.ones(1, 2)
    )
    assert all(p.grad is None and p.is_leaf for p in net.parameters())
    torch.testing.assert_close(before, net.state_dict())


def test_a_detached_parameter_is_a_constant():
    w = torch.ones(2, requires_grad=True)

    @tg.function
    def f(x):
        return w.detach().clone(), (w.detach() * w * x).sum(), torch.detach(x) * x

    x = torch.full((2,), 3.0, requires_grad=True)
    a, b, c = f(x)
    assert not a.requires_grad
    (b + c.sum()).backward()
    assert (w.grad.tolist(), x.grad.tolist()) == ([3, 3], [4, 4])


def test_backward_in_a_branch_goes_through_a_branch_in_it():
    # What torch's formula for a norm writes in place belongs to the gradient, not to the state of the branches.
    def f(w, x):
        if x.sum() > 0:
            y = x / x.norm() if x[0] > 0 else x * 3
            (y * w).sum().backward()
        return x.sum()

    found = []
    for g in (f, tg.function(f)):
        w, x = (torch.tensor([1.0, 2.0], requires_grad=True) for _ in range(2))
        g(w, x)
        found.append([w.grad, x.grad])
    torch.testing.assert_close(*found)


def gradients_in_a_branch_and_a_loop(w, v, p, n):
    total = (v * w).sum() if p else (v * 2 * w).sum()
    for _ in range(n):
        total = total + (w * w).sum()
    total.backward()
    return torch.autograd.grad((v * w).sin().sum() if p else w.sum(), w)[0]


def test_gradients_have_no_history_of_their_own():
    f = tg.function(gradients_in_a_branch_and_a_loop)
    leaves, wanted = ([torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)] for _ in range(2))  # fmt: skip
    for _ in range(2):
        found = f(*leaves, torch.tensor(True), torch.tensor(2))
        torch.testing.assert_close(found, gradients_in_a_branch_and_a_loop(*wanted, True, 2))
        assert not found.requires_grad
    for x, y in zip(leaves, wanted):
        torch.testing.assert_close(x.grad, y.grad)
        assert not x.grad.requires_grad


def test_a_grad_that_no_iteration_sets_stays():
    def f(w, x, n):
        for i in range(n):
            w.grad = x * i

    def run(f, number):
        w, x = torch.ones(3, requires_grad=True), torch.ones(3)
        for n, start in ((2, 0), (0, x * 7), (3, 0), (0, None)):
            w.grad = w.grad if type(start) is int else start
            f(w, x, number(n))
            yield w.grad

    assert str(list(run(tg.function(f), torch.tensor))) == str(list(run(f, int)))


def test_through_a_try_that_fails():
    def made_before_or_anew(x, again):
        y, n = x * 4, 0
        try:
            n = n + 1
            t = torch.ones(3, dtype=x.dtype) * 5
            z = x * 7
            if x[1] < 0:
                raise ValueError
            y = y * z
        except ValueError:
            y = (y * 3 + t + n) * x
            if again:
                y = y + z
        finally:
            y = y * 2
        return y, torch.autograd.grad(y.sum(), x)[0]

    f = tg.function(made_before_or_anew)
    for sign in (1.0, -1.0):
        x = torch.tensor([1.0, sign, 3.0], dtype=torch.float64, requires_grad=True)
        torch.testing.assert_close(f(x, False), made_before_or_anew(x, False))
    # What the body had computed has no gradient where the handler uses it: an error there, and only there.
    x = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64, requires_grad=True)
    torch.testing.assert_close(f(x, True), made_before_or_anew(x, True))
    with pytest.raises(NotImplementedError, match="what a `try` had computed before it failed"):
        f(-x.detach().requires_grad_(), True)


def of_a_branch(w):
    if w.sum() > 0:
        y = w * 2
        s = y * 3
    else:
        y = w * 1
        s = w * 4
    return torch.autograd.grad((s * y).sum(), y)[0]


def of_a_loop(w):
    y = w * 2
    s = y * 3
    while y.sum() < 10:
        y = y * 2
        s = s + y
    return torch.autograd.grad((s * y).sum(), y)[0]


def of_a_branch_that_leaves_it(w):
    y = w * 2
    s = y * 3
    if w.sum() > 5:
        y = w * 4
        s = w * 1
    return torch.autograd.grad((s * y).sum(), y)[0]


@pytest.mark.parametrize("f", [of_a_branch, of_a_loop, of_a_branch_that_leaves_it])
def test_what_a_construct_computed_from_what_it_gives_is_no_way_of_a_gradient(f):
    with pytest.raises(tg.errors.GradientError, match="computed from this tensor"):
        tg.function(f)(torch.tensor([1.0, 2.0], requires_grad=True))


def test_what_a_construct_gives_side_by_side():
    def f(w):
        if w.sum() > 0:
            y, s = w * 2, w * 3
        else:
            y, s = w * 1, w * 4
        return torch.autograd.grad((s * y).sum(), y)[0]

    for x in ([1.0, 2.0], [-1.0, -2.0]):
        w = torch.tensor(x, requires_grad=True)
        assert torch.equal(f(w), tg.function(f)(w))


class Inverse(torch.autograd.Function):
    """Its gradient uses it."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.linalg.inv(x)

    @staticmethod
    def backward(ctx, g):
        y = Inverse.apply(*ctx.saved_tensors)
        return -y.T @ g @ y.T


def test_a_function_whose_gradient_uses_it():
    def f(x):
        return Inverse.apply(x).sin().sum()

    staged = tg.function(f)
    x = (torch.eye(3, dtype=torch.float64) + 0.1).requires_grad_()
    found = []
    for g in (f, staged):
        (a,) = torch.autograd.grad(g(x), x, create_graph=True)
        found.append((a, torch.autograd.grad(a.square().sum(), x, create_graph=True)[0]))
    for native, made in zip(*found):
        torch.testing.assert_close(native, made)
    with pytest.raises(tg.errors.GradientError, match="first and second order only"):
        torch.autograd.grad(found[1][1].sum(), x)
    with torch.no_grad():
        torch.testing.assert_close(staged(x), f(x))


def cotangent_or_none(x, w, n):
    w = w.requires_grad_()
    y, z = (x @ w).sum(), w.sum()
    given = None
    if x.sum() > n:
        given = torch.full_like(y, 2.0)
    (g,) = torch.autograd.grad(outputs=[y], inputs=[w], grad_outputs=[given])
    torch.autograd.backward([z], [given])
    return g, w.grad, torch.stack(tensors=[y.detach() if given is None else given, z.detach()])


@pytest.mark.parametrize("n", [-100.0, 100.0])
def test_cotangents_that_are_none_on_a_path(n):
    same(cotangent_or_none, *arguments(), torch.tensor(n))


def jacobian_by_rows(x):
    x = x.detach().requires_grad_()
    y = x.sin() * x.sum() if x.sum() > 0 else x * 3
    (rows,) = torch.autograd.grad(y, x, torch.eye(3), is_grads_batched=True, create_graph=True)
    (second,) = torch.autograd.grad((rows * rows).sum() + (x * x).sum(), x)
    return rows.detach(), second


def batched_gradients_of_several(x):
    x, unused = x.detach().requires_grad_(), torch.ones(2, requires_grad=True)
    starts = torch.eye(3), torch.ones(3)
    return torch.autograd.grad(
        (x * 2, x.sum()), (x, unused), starts, is_grads_batched=True, allow_unused=True
    )


def batched_gradients_in_a_loop(x):
    x = x.detach().requires_grad_()
    y = x.detach()
    while y.sum() > 0:
        (rows,) = torch.autograd.grad(x.cos() * x, x, torch.eye(3), is_grads_batched=True)
        y = y - rows.abs().sum() - 0.1
    return (y,)


@pytest.mark.parametrize(
    "f", [jacobian_by_rows, batched_gradients_of_several, batched_gradients_in_a_loop]
)
def test_gradients_for_many_rows_at_once(f):
    staged = tg.function(f)
    for x in (torch.tensor([1.0, 2.0, 3.0]), torch.tensor([-1.0, 2.0, -3.0])):
        for expected, got in zip(f(x), staged(x), strict=True):
            if expected is None:
                assert got is None
            else:
                torch.testing.assert_close(got.detach(), expected.detach())


def test_gradients_for_a_number_of_rows_that_only_the_run_knows():
    def f(x):
        y = (x * 2).requires_grad_() if not x.requires_grad else x * 2
        starts = torch.eye(3)[x > 0]
        return torch.autograd.grad(y * 2, y, starts, is_grads_batched=True)

    with pytest.raises(tg.errors.GradientError, match="known only when the graph runs"):
        tg.function(f)(torch.tensor([1.0, -2.0, 3.0]))


def test_state_of_a_loop_that_another_branch_writes():
    def f(x, n):
        y, k = x.sin(), 0
        while k < n:
            k += 1
            if k % 2 == 1:
                y = torch.tanh(torch.autograd.grad(y.sin().sum(), y)[0])
            else:
                y.mul_(2)
        return y

    x = torch.tensor([0.1, 0.2], requires_grad=True)
    staged = tg.function(f)
    for n in (0, 1):
        torch.testing.assert_close(staged(x, torch.tensor(n)), f(x, torch.tensor(n)))


def test_a_gradient_in_a_try_of_what_was_computed_before():
    def f(x, n):
        y = torch.sin(x * 2)
        try:
            y = torch.autograd.grad(y.sum().sin(), x)[0]
            if n < 1:
                raise ValueError
        except ValueError:
            y = y * 2
        return y

    x, staged = torch.tensor([0.1, 0.2], requires_grad=True), tg.function(f)
    for n in (0, 1):
        torch.testing.assert_close(staged(x, torch.tensor(n)), f(x, torch.tensor(n)))


def by_position(x, w, n):
    """The sixth parameter of ``torch.autograd.grad`` is ``only_inputs``."""
    w = w.requires_grad_()
    unused = torch.ones(3, requires_grad=True)
    y = (x @ w).sin().sum() if n > 0 else (x @ w).sum()
    return torch.autograd.grad(y, [w, unused], None, True, False, True, True, False, True)


def test_only_inputs_of_grad():
    same(by_position, *arguments(), torch.tensor(1.0))

    @tg.function
    def penalty(x, w):
        y = (x @ w).pow(3).sum()
        (g,) = torch.autograd.grad(outputs=y, inputs=x, create_graph=True, only_inputs=True)
        return (g.norm(dim=1) - 1).pow(2).mean()

    @tg.function
    def unused(x, w):
        return torch.autograd.grad(x.sum(), [x, w], None, False, False, True)

    @tg.function
    def warned(x):
        return torch.autograd.grad((x * x).sum(), x, only_inputs=False)[0]

    x, w = (a.requires_grad_() for a in arguments())
    torch.testing.assert_close(penalty(x, w), penalty.python_function(x, w))
    with pytest.raises(RuntimeError, match="not have been used"):
        unused(x, w)
    with pytest.warns(FutureWarning, match="only_inputs argument is deprecated"):
        torch.testing.assert_close(warned(x), 2 * x)
