"""Gradients outside of a function: forward/backward pairs of graphs, against eager PyTorch, orders 1 to 3."""

import pytest
import torch

import tograph as tg
from tograph.runtime.autodiff import vjp
from tograph.runtime.execution import host
from tograph.runtime.graph import ops


def inputs(*shapes, seed=0):
    torch.manual_seed(seed)
    return [torch.randn(s, dtype=torch.float64, requires_grad=True) for s in shapes]


def orders(f, args, n=3):
    """The value and the gradients of a function up to order n, all by create_graph."""
    args = [a.detach().clone().requires_grad_(a.requires_grad) for a in args]
    wrt = [a for a in args if a.requires_grad]
    out = f(*args)
    outs = [x for x in (out if isinstance(out, tuple) else (out,)) if isinstance(x, torch.Tensor)]
    found = list(outs)
    total = sum(x.sin().sum() for x in outs if x.requires_grad)
    for _ in range(n):
        grads = [None] * len(wrt)
        if isinstance(total, torch.Tensor) and total.requires_grad:
            grads = torch.autograd.grad(total, wrt, create_graph=True, allow_unused=True)
        grads = [torch.zeros_like(a) if g is None else g for g, a in zip(grads, wrt)]
        found += grads
        total = sum((g * g).sum() for g in grads)
    return found


def same_as_eager(f, *calls, n=3):
    """One trace, and one pair of each order, for all rows of arguments."""
    staged = tg.function(f)
    for args in calls:
        for got, want in zip(orders(staged, args, n), orders(f, args, n), strict=True):
            torch.testing.assert_close(got, want)
    assert staged.trace_count == 1


def branches(x, w):
    h = x @ w
    if h.sum() > 0:
        y = h.sin()
    else:
        y = h * h * w.sum()
    return y


def while_loop(x, w, n):
    i, y = 0, x
    while i < n:
        y = torch.tanh(y @ w) + x
        i += 1
    return y


def nested(x, w, n):
    y = x
    for i in range(n):
        if y.sum() > 0.1 * i:
            for _ in range(i):
                if y[0, 0] > 0:
                    y = torch.tanh(y @ w) + x
                else:
                    y = y - 0.3 * w.sum()
        else:
            y = y * 1.1 + w.sum()
        if y.sum() > 50:
            break
    return y, n * 2


def early_return(x, w, n):
    y = x
    for _ in range(n):
        y = y @ w
        if y.abs().max() > 2:
            return y * 3
        y = y + x
    return y.sin()


def appends(x, w, n):
    out = []
    for i in range(n):
        if i % 2 == 0:
            out.append((x @ w * i).sin())
        else:
            out.append(x * x)
    return torch.stack(out).sum(0) * out[1]


def tensor_array(x, w, n):
    ta = tg.TensorArray(x.dtype, size=0, dynamic_size=True, element_shape=x.shape)
    for i in range(n):
        ta = ta.write(i, x * i)
    return ta.stack().sum(0) * ta.read(0).cos() + ta.read(1) * w.sum()


def unused_branch(x, w):
    return x * 2 if w.sum() > 100 else w @ w


def writes(x, w, n):
    y = torch.zeros_like(x)
    for i in range(n):
        y[i % 2] = x[i % 2].cos() * w[0]
    y[0] *= 2
    return y


def switch(x, w, n):
    return tg.switch_case(n, [lambda: x.sin(), lambda: x @ w, lambda: x * w.sum()])


@pytest.mark.parametrize("f", [branches, unused_branch])
def test_if(f):
    x, w = inputs((2, 3), (3, 3))
    same_as_eager(f, *(((sign * x).detach().requires_grad_(), w) for sign in (1, -1)))


def by_trips(*trips):
    x, w = inputs((2, 3), (3, 3))
    return [(x, w, torch.tensor(n)) for n in trips]


@pytest.mark.parametrize("f", [while_loop, nested, early_return, writes, switch])
def test_while(f):
    same_as_eager(f, *by_trips(0, 1, 2, 5), n=2 if f is nested else 3)


@pytest.mark.parametrize("f", [appends, tensor_array])
def test_lists(f):
    same_as_eager(f, *by_trips(2, 5), n=2)


@pytest.mark.parametrize("f", [branches, while_loop, nested, appends])
def test_gradcheck(f):
    args = inputs((2, 3), (3, 3), seed=3)
    args += [] if f is branches else [torch.tensor(3)]
    function = tg.function(f)
    assert torch.autograd.gradcheck(function, args)
    assert torch.autograd.gradgradcheck(function, args)


def test_calls():
    @tg.function
    def inner(x, w):
        return branches(x, w) + x

    def outer(x, w, n):
        y = x
        for _ in range(n):
            y = inner(y, w)
        return inner(y, w) * inner(x, w)

    same_as_eager(outer, *by_trips(2), n=2)


@pytest.mark.parametrize("f", [tg.map_fn, tg.scan])
def test_higher_order(f):
    def step(*rows):
        total = rows[0]
        for r in rows[1:]:
            total = total.sin() * r
        return total * total

    same_as_eager(lambda x: f(step, x), inputs((3, 2)))


def test_the_four_gradients_that_torch_gets_wrong():
    # (a) a carry that does not require grad, (b) no trips, (c) no trips with closed-over weights, (d) second order
    x, w = inputs((2, 3), (3, 3))

    def rnn(x, w, n):
        h, i = torch.zeros_like(x), 0
        while i < n:
            h = torch.tanh(x + h @ w)
            i += 1
        return h

    trips = [torch.tensor(n) for n in (0, 1, 4)]
    same_as_eager(rnn, *((x, w, n) for n in trips), n=1)
    same_as_eager(lambda n: rnn(x.detach(), w, n), *((n,) for n in trips), n=0)

    def power(x):
        i = 0
        while i < torch.tensor(3):
            x = x * x
            i += 1
        return x

    p = torch.tensor(1.1, dtype=torch.float64, requires_grad=True)
    same_as_eager(power, (p,))
    (g,) = torch.autograd.grad(tg.function(power)(p), p, create_graph=True)
    assert torch.autograd.grad(g, p)[0].item() == pytest.approx(56 * 1.1**6)


def test_closed_over_weights_get_no_gradient_from_no_trips():
    w = torch.randn(3, 3, requires_grad=True)

    @tg.function
    def f(x, n):
        for _ in range(n):
            x = x @ w
        return x

    with pytest.raises(RuntimeError, match="does not require grad"):
        f(torch.ones(2, 3), torch.tensor(0)).sum().backward()
    assert w.grad is None
    f(torch.ones(2, 3), torch.tensor(1)).sum().backward()
    torch.testing.assert_close(w.grad, torch.full((3, 3), 2.0))


def test_in_place_write_to_a_captured_buffer_in_a_loop():
    buffer = torch.zeros(3)

    @tg.function
    def f(x, n):
        for i in range(n):
            buffer[i] = x[i].detach() * 2
            x = x * 1.5
        return x

    x = torch.ones(3, requires_grad=True)
    f(x, torch.tensor(2)).sum().backward()
    assert buffer.tolist() == [2, 3, 0]
    assert x.grad.tolist() == [2.25] * 3


def test_parsed_graph():
    args = [*inputs((2, 3), (3, 3)), torch.tensor(3)]
    graph = tg.parse_graph(str(tg.function(nested).get_concrete_function(*args).graph))
    p = vjp(graph, [0, 1])
    assert (p.given, p.present) == ([0], [0, 1])
    text = str(p.backward)
    assert str(tg.parse_graph(text)) == text
    plain = [a.detach() for a in args]
    outs = host.build(p.forward).run(*plain)
    cotangent = torch.randn(2, 3, dtype=torch.float64)
    got = host.build(p.backward).run(
        *[plain[i] for i in p.kept], *outs[len(graph.outputs) :], cotangent
    )
    for g, want in zip(got, torch.autograd.grad(nested(*args)[0], args[:2], cotangent)):
        torch.testing.assert_close(g, want)


def test_invariants_and_counters_are_not_saved():
    graph = (
        tg.function(while_loop)
        .get_concrete_function(*inputs((2, 3), (3, 3)), torch.tensor(2))
        .graph
    )
    text = str(vjp(graph, [0, 1]).forward)
    assert text.count("tg.list_push") == 2  # y and tanh(y @ w): not w, x, i or n
    assert "list<int>" not in text


def test_untaken_branch_saves_nothing():
    graph = tg.function(branches).get_concrete_function(*inputs((2, 3), (3, 3))).graph
    text = str(vjp(graph, [0, 1]).forward)
    assert text.count("tg.optional_none") == text.count("tg.optional_some") > 0


def test_effects_happen_once(capsys):
    @tg.function
    def f(x):
        if x.sum() > 0:
            print("once", x.sum())
            x = x * 2
        return x.sin()

    x = torch.ones(2, requires_grad=True)
    (g,) = torch.autograd.grad(f(x).sum(), x, create_graph=True)
    torch.autograd.grad(g.sum(), x)
    assert capsys.readouterr().out.count("once") == 1


def test_random_numbers_are_drawn_once():
    def f(x, n):
        for _ in range(n):
            x = (x * torch.rand_like(x)).sin()
        return torch.nn.functional.dropout(x, 0.5, training=True)

    function = tg.function(f)
    found = []
    for g in (f, function):
        x = torch.linspace(0, 1, 6, requires_grad=True)
        torch.manual_seed(1)
        y = g(x, torch.tensor(3))
        (d,) = torch.autograd.grad(y.sum(), x, create_graph=True)
        (dd,) = torch.autograd.grad((d * d).sum(), x)
        found.append((y, d, dd, torch.rand(2)))
    for a, b in zip(*found):
        torch.testing.assert_close(a, b)


def test_requires_grad_is_that_of_eager():
    @tg.function
    def f(x, y):
        return x.detach() * 2, y + 1, x, x.argmax(), x * y

    x, y = torch.ones(2, requires_grad=True), torch.ones(2)
    a, b, c, d, e = f(x, y)
    assert [t.requires_grad for t in (a, b, c, d, e)] == [False, False, True, False, True]
    assert c is x
    with torch.no_grad():
        assert not f(x, y)[4].requires_grad


def test_a_dynamic_list_of_results():
    @tg.function
    def f(x, n):
        out = []
        for i in range(n):
            out.append(x * i)
        return out

    x = torch.ones(2, requires_grad=True)
    rows = f(x, torch.tensor(3))
    (rows[1].sum() + rows[2].sum()).backward()
    assert x.grad.tolist() == [3, 3]


def test_orders_of_a_dynamic_list_of_results():
    def f(x, y):
        found = [x]
        if y.sum() < 1:
            found.insert(0, x * y)
        return x * x * y, found

    def orders(f, last):
        x = torch.tensor([0.3, -0.5], requires_grad=True)
        y = torch.tensor([0.2, last], requires_grad=True)
        first, rest = f(x, y)
        found = [sum((t * t * t).sum() for t in (first, *rest))]
        for _ in range(3):
            grads = torch.autograd.grad(found[-1], (x, y), create_graph=True)
            found += [*grads, sum((g * g).sum() for g in grads)]
        return found

    for last in (0.1, 2.0):
        for one, two in zip(orders(f, last), orders(tg.function(f), last), strict=True):
            torch.testing.assert_close(one, two)


def test_a_second_backward_needs_retain_graph():
    x = torch.ones(2, requires_grad=True)
    y = tg.function(lambda x: x.sin() * x)(x).sum()
    y.backward(retain_graph=True)
    y.backward()
    with pytest.raises(RuntimeError, match="second time"):
        y.backward()


def test_a_written_input_is_noticed():
    x = torch.ones(2, requires_grad=True)
    w = torch.ones(2)
    y = tg.function(lambda x, w: x * w)(x, w).sum()
    w.add_(1)
    with pytest.raises(RuntimeError, match="inplace"):
        y.backward()


def test_batch_norm_trains():
    torch.manual_seed(0)
    nets = [torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4)) for _ in range(2)]
    nets[1].load_state_dict(nets[0].state_dict())
    x = torch.randn(5, 3)
    for net, f in zip(nets, (nets[0], tg.function(nets[1]))):
        f(x).square().sum().backward()
        f(x * 2).cos().sum().backward()
    for a, b in zip(nets[0].parameters(), nets[1].parameters()):
        torch.testing.assert_close(a.grad, b.grad)
    for a, b in zip(nets[0].buffers(), nets[1].buffers()):
        torch.testing.assert_close(a, b)


def test_python_functions_are_differentiated_by_torch():
    @tg.function
    def f(x):
        return tg.py_function(lambda v: v * v, [x], tg.TensorSpec([2], torch.float32)).sum()

    x = torch.ones(2, requires_grad=True)
    f(x).backward()
    assert x.grad.tolist() == [2, 2]


def test_cotangents_of_lists_in_either_form_are_added_cell_by_cell():
    add, one = ops.lookup("tg.handle_add").run, torch.ones(2)
    for a, b in (((one,), (one,)), ([one], (one,)), ([one], [one])):
        (total,) = add(a, b)
        assert total.tolist() == [2, 2]
    assert [v.tolist() for v in ops.lookup("tg.handle_zeros").run([one])] == [[0, 0]]


def test_an_argument_that_the_code_makes_a_leaf():
    @tg.function
    def f(x):
        if not x.requires_grad:
            x.requires_grad_()
        while x.sum() < 100:
            x = x * 2
        return x

    for _ in range(2):
        x = torch.tensor([1.0, 2.0])
        f(x).sum().backward()
        assert x.requires_grad
        assert torch.equal(x.grad, torch.full((2,), 64.0))
    assert f.trace_count == 1


def a_leaf_for_a_while(x, w):
    y = x * 2
    x.requires_grad_(True)
    (g,) = torch.autograd.grad((x**2 * w).sum() + y.sum(), x)
    x.requires_grad_(False)
    return g, y * w


def a_leaf_in_each_iteration(x, w):
    y = x * 2
    while (x**2).sum() > 0.1:
        for node in (x, w):
            node.requires_grad_(True)
        gx, gw = torch.autograd.grad((x**2 * w + y * w).sum(), (x, w))
        for node in (x, w):
            node.requires_grad_(False)
        x, y = x - 0.1 * gx, y + gw
    return x, y


@pytest.mark.parametrize("f", [a_leaf_for_a_while, a_leaf_in_each_iteration])
def test_an_argument_that_is_a_leaf_for_a_while_after_its_first_use(f):
    g = tg.function(f)
    for c in (1.0, -2.0):
        args = torch.tensor([c, 2.0]), torch.tensor([3.0, 1.0])
        for made, wanted in zip(g(*args), f(*args), strict=True):
            torch.testing.assert_close(made, wanted)
        assert not any(x.requires_grad or x.grad is not None for x in args)


# ---- constructs under no_grad move values, and values keep their history


def chosen(x, y, w):
    with torch.no_grad():
        if x.sum() > 0:
            z = y
        else:
            z = x
    return (z * 2).sum()


def bound_in_a_loop(x, y, w):
    with torch.no_grad():
        for i in tg.range(3):
            if i == 1:
                y = x
    return y.sum()


def swapped(x, y, w):
    z = x
    with torch.no_grad():
        for _ in tg.range(3):
            y, z = z, y
    return (y * z * w).sum()


def enabled_in_a_branch(x, y, w):
    with torch.no_grad():
        if x.sum() > 0:
            with torch.enable_grad():
                z = y * w
        else:
            z = x
    return (z * 2).sum()


def gathered(x, y, w):
    found = [y]
    with torch.no_grad():
        for _ in tg.range(3):
            found.append(x)
    return torch.stack(found).sum()


@pytest.mark.parametrize("f", [chosen, bound_in_a_loop, swapped, enabled_in_a_branch, gathered], ids=lambda f: f.__name__)  # fmt: skip
@pytest.mark.parametrize("inside", [False, True])
def test_values_that_move_without_grad(f, inside):
    def whole(x, w):
        loss = f(x, x * 2, w)
        if inside:
            return torch.autograd.grad(loss, [x, w], materialize_grads=True, allow_unused=True)
        return loss

    found = []
    for g in (whole, tg.function(whole)):
        x, w = torch.arange(3.0).requires_grad_(), torch.ones(3, requires_grad=True)
        made = g(x, w)
        found.append(made if inside else torch.autograd.grad(made, [x, w], materialize_grads=True))
    torch.testing.assert_close(*found)


def test_second_derivative_of_a_parameter_that_the_call_wrote():
    found = []
    for wrap in (lambda f: f, tg.function):
        w = torch.tensor([1.0, 2.0], requires_grad=True)

        def f(x):
            with torch.no_grad():
                w.mul_(2)  # noqa: B023
            return (w**3 * x).sum()  # noqa: B023

        x = torch.tensor([0.5, -1.0], requires_grad=True)
        (g,) = torch.autograd.grad(wrap(f)(x), x, create_graph=True)
        found.append(torch.autograd.grad(g.sum(), w)[0])
    torch.testing.assert_close(*found)


def layer_norm(x):
    return torch.layer_norm(x, (3,)) if x.sum() > 0 else x.sin()


def layer_norm_in_a_loop(x):
    for _ in tg.range(2):
        x = torch.layer_norm(2 * x, (3,))
    return x


def batch_norm(x):
    make = torch.nn.functional.batch_norm
    return make(x.view(3, 1), None, None, training=True).view(3) if x.sum() > 0 else x.sin()


def cross_entropy(x):
    loss = torch.nn.functional.cross_entropy
    return loss(x[None], torch.tensor([1])) * x if x.sum() > 0 else x.exp() * x.sin()


@pytest.mark.parametrize("f", [layer_norm, layer_norm_in_a_loop, batch_norm, cross_entropy], ids=lambda f: f.__name__)  # fmt: skip
def test_orders_through_ops_that_save_constants(f):
    # The mean that a layer norm gives beside its result is a constant to torch.
    found = []
    for g in (f, tg.function(f)):
        x = torch.tensor([0.3, -1.0, 2.0], dtype=torch.float64, requires_grad=True)
        level, made = (g(x) ** 3).sum(), []
        for _ in range(3):
            (d,) = torch.autograd.grad(level, x, create_graph=True)
            made.append(d.detach())
            level = (d * d).sum()
        found.append(made)
    torch.testing.assert_close(*found)


def test_a_derivative_that_torch_does_not_have_raises_where_its_branch_runs():
    def second(f, sign):
        x = (sign * torch.ones(3, 2, dtype=torch.float64)).requires_grad_()
        (g,) = torch.autograd.grad(f(x), x, create_graph=True)
        return torch.autograd.grad(g.sum(), x)[0]

    def f(x):
        return x.sin().sum() if x.sum() > 0 else torch.cdist(x, x * x).sum()

    torch.testing.assert_close(second(tg.function(f), 1), second(f, 1))
    for function in (tg.function(f), f):
        with pytest.raises(NotImplementedError, match="_cdist_backward"):
            second(function, -1)


def test_the_gradients_of_one_call_are_the_same_to_the_last_bit():
    """What torch calls reentrant: a graph that is compiled in between rounds otherwise."""

    @tg.function
    def f(x, w):
        return torch.tanh(torch.tanh(x @ w) @ w).exp()

    given = [torch.randn(5, 5, dtype=torch.float64, requires_grad=True) for _ in range(2)]
    y = f(*given)
    first, *others = [torch.autograd.grad(y.sum(), given, retain_graph=True) for _ in range(3)]
    assert all(torch.equal(a, b) for other in others for a, b in zip(first, other))
