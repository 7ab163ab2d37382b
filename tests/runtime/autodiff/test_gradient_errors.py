"""Gradients that cannot be taken: the error that eager PyTorch gives, or a GradientError with the user's line."""

import pytest
import torch

import tograph as tg
from tograph.errors import GradientError

D = torch.float64


def leaf():
    return torch.linspace(0.5, 2, 3, dtype=D, requires_grad=True)


def message(run, f):
    with pytest.raises(RuntimeError) as caught:
        run(f, leaf())
    return str(caught.value).splitlines()[0]


def outside(f, x):
    torch.autograd.grad(f(x).sum(), x)


def inside(f, x):
    f(x)


def through_integers(x):
    y = x.long()
    while y.sum() < 9:
        y = y + 1
    return y


def back_from_integers(x):
    return through_integers(x).to(D) * 2


def of_integers(x):
    return torch.autograd.grad(back_from_integers(x).sum(), x)[0]


def no_history(x):
    with torch.no_grad():
        return x.sin() if x.sum() > 0 else x.cos()


def freed(x):
    y = x.sin().sum()
    return torch.autograd.grad(y, x)[0] + torch.autograd.grad(y, x)[0]


def not_used(x):
    w = torch.ones(3, dtype=D, requires_grad=True)
    return torch.autograd.grad((x * 2).sum(), w)[0]


def saved_and_written(x):
    y = x.exp()
    z = y * y
    y.add_(1)
    return torch.autograd.grad((y + z).sum(), x)[0]


def leaf_written(x):
    x.add_(1)
    return x


def integer_leaf(x):
    return x.long().requires_grad_()


def not_a_scalar(x):
    return torch.autograd.grad(x.sin(), x)[0]


@pytest.mark.parametrize(
    "run, f",
    [
        (outside, through_integers), (outside, back_from_integers), (inside, of_integers), (outside, no_history),
        (inside, freed), (inside, not_used), (inside, saved_and_written), (inside, leaf_written), (inside, integer_leaf),
        (inside, not_a_scalar),
    ],
    ids=lambda f: f.__name__,
)  # fmt: skip
def test_message_is_that_of_eager(run, f):
    want, got = message(run, f), message(run, tg.function(f))
    assert got[:60] == want[:60]


def test_a_result_written_after_the_call():
    def late(f, x):
        y = f(x)
        y.add_(1)
        y.sum().backward()

    want, got = message(late, torch.exp), message(late, tg.function(lambda x: x.exp()))
    assert got[:60] == want[:60]


def call(x):
    return tg.py_function(lambda v: v * v, [x], tg.TensorSpec([3], D))


def python(x):
    return torch.autograd.grad((call(x) + x).sum(), x)[0]


def python_in_a_loop(x):
    y = x
    for _ in range(torch.tensor(2)):
        y = call(y) if y.sum() > 0 else y
    return torch.autograd.grad((y + x).sum(), x)[0]


def one_of_several(x):
    y, _ = tg.py_function(lambda v: (v * v, v), [x], [tg.TensorSpec([3], D)] * 2)
    return torch.autograd.grad((y + x).sum(), x)[0]


@pytest.mark.parametrize("f", [python, python_in_a_loop, one_of_several])
def test_python_functions_have_no_gradient_inside(f):
    with pytest.raises(GradientError, match=r"tg\.py_function") as caught:
        tg.function(f)(leaf())
    assert "test_gradient_errors.py" in str(caught.value)


def test_python_functions_without_a_gradient():
    def f(x):
        return tg.py_function(lambda v: torch.from_numpy(v.detach().numpy() * 2), [x], spec)

    spec = tg.TensorSpec([3], D)
    assert "does not require grad" in message(outside, tg.function(f))
    x = leaf()
    (g,) = torch.autograd.grad((tg.function(lambda x: f(x) + x * 3)(x)).sum(), x)
    assert g.tolist() == [3, 3, 3]


def test_a_loop_needs_no_maximum_iterations():
    # TensorFlow's compiled loops ask for one before they give a gradient; here any loop has one.
    @tg.function
    def f(x):
        while x.sum() < 20:
            x = x * x + x
        return x

    @tg.function
    def bounded(x, n):
        for _ in range(n):
            tg.set_loop_options(maximum_iterations=2)
            x = x * x
        return x

    x = leaf()
    (g,) = torch.autograd.grad(f(x).sum(), x)
    (want,) = torch.autograd.grad(f.python_function(x).sum(), x)
    torch.testing.assert_close(g, want)
    (g,) = torch.autograd.grad(bounded(x, torch.tensor(9)).sum(), x)
    torch.testing.assert_close(g, 4 * x.detach() ** 3)


@pytest.mark.filterwarnings("ignore:Anomaly Detection")
def test_anomaly_detection():
    @tg.function
    def f(x):
        return x.sqrt() * 0

    @tg.function
    def g(x):
        return torch.autograd.grad((x.sqrt() * 0).sum(), x)[0]

    x = torch.zeros(3, dtype=D, requires_grad=True)
    with torch.autograd.detect_anomaly(check_nan=True):
        with pytest.raises(RuntimeError, match="nan values"):
            f(x).sum().backward()
        with pytest.raises(GradientError, match="anomaly"):
            g(x)


def test_determinants_of_other_layouts():
    f = tg.function(lambda w: torch.det(w) + torch.linalg.slogdet(w)[1])
    torch.manual_seed(0)
    for turned in (False, True):
        w = torch.rand(3, 3, dtype=D) + torch.eye(3)
        w = (w.t() if turned else w).requires_grad_()
        want = torch.linalg.inv(w).t() * (torch.det(w) + 1)
        (g,) = torch.autograd.grad(f(w), w, create_graph=True)
        torch.testing.assert_close(g, want)
        torch.testing.assert_close(*(torch.autograd.grad((y * y).sum(), w)[0] for y in (g, want)))


# ---- what was saved for the gradient and then written in place


def result_written(x):
    z = (x * 2).exp()
    z.mul_(2)
    return z.sum()


def written_last(x):
    z = (x * 2).exp()
    s = z.sum()
    z.mul_(2)
    return s


def factor_written(x):
    c = torch.ones(3)
    z = x * c
    c.add_(1)
    return z.sum()


def view_written(x):
    y = x * 2
    z = y * y
    y[0].add_(1)
    return z.sum() + y.sum()


def argument_written(x, c):
    z = x * c
    c.add_(1)
    return z.sum()


def written_in_each_iteration(x):
    c, y = torch.ones(3), x
    for _ in tg.range(3):
        y = y * c
        c.add_(1)
    return y.sum()


def saved_in_each_iteration(x):
    y = x
    for _ in tg.range(3):
        z = y.exp()
        y = z * 0.5
        z.add_(1)
    return y.sum()


def written_by_its_alias(x):
    y = x * 1
    return y.mul_(y.detach()).sum()


def written_by_its_part(x):
    y = x * 1
    y[:2].mul_(y.detach()[:2])
    return y.sum()


def result_of_a_view_written(x):
    y = x * 2
    y[:2].exp_()
    y.add_(1)
    return y.sum()


def result_of_a_view_written_by_another(x):
    y = x * 2
    part = y.view(-1)[1:].relu_()
    y[:1].mul_(2)
    return y.sum() + part.sum()


@pytest.mark.parametrize(
    "f",
    [result_written, written_last, factor_written, view_written, argument_written, written_in_each_iteration, saved_in_each_iteration,
     written_by_its_alias, written_by_its_part, result_of_a_view_written, result_of_a_view_written_by_another],
    ids=lambda f: f.__name__,
)  # fmt: skip
def test_written_after_it_was_saved(f):
    for g in (f, tg.function(f)):
        x = torch.tensor([0.1, 0.2, 0.3], requires_grad=True)
        loss = g(x, torch.ones(3)) if f is argument_written else g(x)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            loss.backward()

    @tg.function
    def inside(x, *rest):
        x = x.detach().requires_grad_()
        return torch.autograd.grad(f(x, *rest), x)

    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        inside(torch.ones(3), *([torch.ones(3)] if f is argument_written else []))


def test_written_with_a_tensor_from_outside():
    def f(x, factor):
        y = torch.exp(x)
        z = y * 0.5
        y.mul_(factor)  # a read of the factor comes first, and nothing uses the result
        return z

    for g in (f, tg.function(f)):
        x = torch.ones(3, requires_grad=True)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            g(x, torch.tensor(2.0)).sum().backward()


def own_factor(w):
    y = w * 2
    y.mul_(w)
    y.mul_(w)
    return y.sum()


def rows_written(w):
    out = torch.zeros(4, 3)
    for i in tg.range(4):
        out[i] = torch.sin(w * i)
    return (out * out).sum()


def results_kept(w):
    y = w.clone()
    y += w * 3
    y /= w
    y.sigmoid_()
    return y.sum()


def not_needed(w):
    x, total = w * 1, torch.ones(3)
    for _ in tg.range(3):
        total += x
        x = x * 0.5
    return (x * total).sum()


@pytest.mark.parametrize("f", [own_factor, rows_written, results_kept, not_needed], ids=lambda f: f.__name__)  # fmt: skip
def test_written_and_not_needed(f):
    w = torch.randn(3, requires_grad=True)
    (found,), (wanted,) = (torch.autograd.grad(g(w), w) for g in (tg.function(f), f))
    torch.testing.assert_close(found, wanted)


def test_statistics_that_a_layer_updates_are_not_an_error():
    layers = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.BatchNorm1d(3), torch.nn.ReLU(inplace=True))  # fmt: skip
    x, f = torch.randn(4, 3), lambda x: layers(x).sum() + layers(2 * x).square().sum()
    found = torch.autograd.grad(tg.function(f)(x), list(layers.parameters()))
    torch.testing.assert_close(found, torch.autograd.grad(f(x), list(layers.parameters())))


def test_a_formula_that_needs_a_size_names_the_line():
    @tg.function
    def f(x):
        y = x[x > 0]
        if y.sum() > 0:
            z = torch.nn.functional.batch_norm(y.expand(2, -1).t(), None, None, training=True).sum()
        else:
            z = y.sum()
        return torch.autograd.grad(z, x, create_graph=True)[0]

    with pytest.raises(GradientError, match="torch's formula for a derivative") as caught:
        f(leaf())
    assert "line" in str(caught.value)


def _after_one(x, y, z, c):
    if c > 0:
        x.mul_(y)
    if c > 1:
        x.mul_(z)
    x.mul_(z)
    return x.sum()


def _in_a_branch(x, y, z, c):
    total = y.sum()
    if c > 0:
        if c > -1:
            total = total + (x * y).sum()
    if c > 1:
        x.mul_(z)
    return x.sum() + total


def _in_a_loop(x, y, z, c):
    total = y.sum()
    while total < 10:
        if c > 0:
            total = total + (x * y).sum()
        total = total + 4
    if c > 1:
        x.mul_(z)
    return x.sum() + total


@pytest.mark.parametrize("f", [_after_one, _in_a_branch, _in_a_loop])
def test_writes_behind_a_branch(f):
    """What a branch saved of its own write is a copy; what a nested one saved of an input may be written behind the outer one."""

    def step(x, y, z, c):
        return torch.autograd.grad(f(x * 1, y, z, c), [y, z], allow_unused=True)

    staged = tg.function(step)
    for c in (2.0, 1.0, -2.0):
        args = torch.rand(3), leaf(), leaf(), torch.tensor(c)
        try:
            wanted = step(*args)
        except RuntimeError:
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                staged(*args)
        else:
            torch.testing.assert_close(staged(*args), wanted)


def test_a_hook_on_one_of_several_tensors():
    def f(x, c, both):
        y, z = x * 2, x * 3
        w = y if c else z
        w.register_hook(lambda g: g * 3)
        return torch.autograd.grad((y + z if both else w).sum(), x)[0]

    staged, c = tg.function(f), torch.tensor(True)
    torch.testing.assert_close(staged(leaf(), c, False), f(leaf(), c, False))
    with pytest.raises(GradientError, match="one of several tensors"):
        staged(leaf(), c, True)


def test_a_hook_where_no_gradient_comes():
    def f(x, c):
        if c:
            a, b = x * 2, x * 3
        else:
            a, b = x * 4, x * 5
        a.register_hook(lambda g: g * 3)
        return torch.autograd.grad(b.sum(), x, retain_graph=True)[0], b

    found = []
    for g in (f, tg.function(f)):
        x = leaf()
        inside, b = g(x, torch.tensor(True))
        found.append([inside, *torch.autograd.grad(b.sum(), x)])
    torch.testing.assert_close(*found)


def test_a_list_beside_a_gradient_that_frees_nothing_of_it():
    def f(x, c):
        rows = [x.cos()]
        if c:
            rows.append(rows[0])
        else:
            q = rows[0].detach().requires_grad_()
            torch.autograd.grad((q * x).sin().sum(), q)
        return torch.stack(rows).sum()

    x, c = leaf(), torch.tensor(True)
    found = [torch.autograd.grad(g(x, c), x) for g in (f, tg.function(f))]
    torch.testing.assert_close(*found)


class Cell(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("h", torch.ones(2))


def written_argument(x, w, c):
    if c > 0:
        w.mul_(x)
    return torch.autograd.grad((w * x).sum(), x)


def written_buffer(x, cell, c):
    for _ in range(c):
        cell.h.mul_(x)
    return torch.autograd.grad((cell.h * x).sum(), x)


@pytest.mark.parametrize(
    "f, other", [(written_argument, torch.ones(2)), (written_buffer, Cell())], ids=["argument", "buffer"]
)  # fmt: skip
def test_what_a_region_writes_of_the_caller(f, other):
    x = torch.tensor([0.3, 0.4], requires_grad=True)
    with pytest.raises(GradientError, match="writes in place: that is not followed"):
        tg.function(f)(x, other, torch.tensor(1))
    assert not isinstance(other, torch.nn.Module) or not other.h.requires_grad


def test_a_region_may_write_it_without_gradients():
    def f(x, w, c):
        with torch.no_grad():
            if c > 0:
                w.mul_(x)
        return torch.autograd.grad((w * x).sum(), x)

    found = []
    for g in (f, tg.function(f)):
        x, w = torch.tensor([0.3, 0.4], requires_grad=True), torch.ones(2)
        found.append([*g(x, w, torch.tensor(1)), w])
    torch.testing.assert_close(*found)


def test_a_view_by_which_another_branch_gave_a_history():
    """Torch has no way to take it back from the view, and says so by an internal error."""

    def f(x, w, c):
        z = x * 2
        v = z[1:]
        if v[0] > 0:
            v[0] *= w
        else:
            v[0] = c
        return z, v

    with pytest.raises(GradientError, match=r"(?s)through a view of it.*test_gradient_errors.py"):
        tg.function(f)(torch.ones(3), torch.ones((), requires_grad=True), 0.5)


def test_a_formula_that_needs_a_number_inside_names_the_line():
    def f(x, i):
        y = torch.zeros(3).scatter_reduce(0, i, x, "prod", include_self=False)
        (g,) = torch.autograd.grad(y.sum(), x, create_graph=True)
        return torch.autograd.grad(g.square().sum(), x)

    with pytest.raises(GradientError, match=r"(?s)ScatterReduceBackward0.*create_graph"):
        tg.function(f)(torch.ones(2, requires_grad=True), torch.tensor([0, 1]))
