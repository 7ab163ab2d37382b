"""Functions of torch on a plain number that only the run knows."""

import math

import pytest
import torch
import torch.nn.functional as F

import tograph as tg

ROWS = [torch.tensor(r) for r in ([1.0, 2.0, 3.0], [-1.0, -2.0, 0.5], [0.5, -2.0, -1.0])]


def drawn_in_place(x):
    s, p = abs(x[2]).item(), torch.sigmoid(x[0]).item()
    made = [torch.empty(4).uniform_(-s, s), torch.zeros(4).normal_(0, s), torch.empty(4).exponential_(s)]  # fmt: skip
    made += [torch.empty(4).log_normal_(0, s), torch.empty(4).cauchy_(0, s), torch.empty(4).geometric_(p)]  # fmt: skip
    return [*made, torch.empty(4).bernoulli_(p), torch.bernoulli(x, p=p), torch.normal(x, s), torch.normal(0.0, s, (3,))]  # fmt: skip


def drawn_by_name(x):
    s, p = abs(x[2]).item(), torch.sigmoid(x[0]).item()
    made = [torch.empty(4).uniform_(to=s), torch.zeros(4).normal_(std=s), torch.zeros(4).normal_(std=s, mean=2.0)]  # fmt: skip
    made += [torch.empty(4).exponential_(lambd=s), torch.empty(4).cauchy_(sigma=s), torch.empty(4).log_normal_(mean=s)]  # fmt: skip
    return [*made, torch.empty(4).geometric_(p=p), torch.empty(4).bernoulli_(p=p)]


def drawn_by_tensors(x):
    s, p = x[2].abs(), torch.sigmoid(x[0])
    made = [torch.empty(4).uniform_(-s, s), torch.zeros(4).normal_(std=s), torch.empty(4).exponential_(s)]  # fmt: skip
    return [*made, torch.empty(4).geometric_(p), torch.nn.init.uniform_(torch.empty(4), -s, s)]


def with_tensors_for_numbers(x):
    s = x[2].abs()
    return [F.hardtanh(x, -s, s), torch.isclose(x, x + 1, atol=s), F.huber_loss(x, x * 2, delta=s),
            F.smooth_l1_loss(x, x * 2, beta=s), F.layer_norm(x, (3,), eps=s)]  # fmt: skip


def dropped(x):
    w, p = x.clone().requires_grad_(), torch.sigmoid(x[0]).item()
    y = F.dropout(w, p)
    same = F.dropout(x, p, training=False)
    z = x.clone()
    F.dropout(z, p, inplace=True)
    return y.detach(), torch.autograd.grad(y.sum(), w)[0], same, z


def dropped_never_always_and_wrongly(x):
    s = abs(x[2]).item() - 0.5
    try:
        return F.dropout(x, s * 0), F.dropout(x, s * 0 + 1), F.dropout(x, s)
    except ValueError as e:
        return str(e)[:40]


def initialised(x):
    s = abs(x[2]).item()
    w = torch.nn.Parameter(torch.empty(4, 2))
    found = []
    for name, args in (("uniform_", (-s, s)), ("xavier_normal_", (s,)), ("orthogonal_", (s,))):  # fmt: skip
        getattr(torch.nn.init, name)(w, *args)
        found.append(w.detach().clone())
    return found


def padded(x):
    s = x[0].item()
    return F.pad(x, (1, 2), value=s), F.pad(x[None], (1, -1, 2, 0), value=s), F.pad(x.long(), (1, 1), "constant", int(s))  # fmt: skip


def compared(x):
    s = abs(x[2]).item()
    nan = x / x.new_zeros(())
    near = math.isclose(s, 3.0), math.isclose(s, 0.6, rel_tol=0.5), torch.allclose(x, x + 0.7, atol=s)  # fmt: skip
    return near, torch.float_power(x.abs(), s), torch.isclose(x, x + 0.7, atol=s), x.isclose(x * 2, rtol=s), torch.isclose(nan - nan, nan - nan, atol=s, equal_nan=True)  # fmt: skip


def of_two_numbers(x):
    s = x[2].item()
    found = torch.div(s, 2), torch.div(7, s, rounding_mode="trunc"), torch.true_divide(int(s), 2)
    return *found, torch.div(1, 3), torch.float_power(s, x.abs()), torch.float_power(2, x)


def losses_and_gradients(x):
    s = abs(x[2]).item()
    w = x.clone().requires_grad_()
    found = [F.hardtanh(w, -s, s), F.huber_loss(w, x * 2, delta=s), F.smooth_l1_loss(w, x * 2, beta=s)]  # fmt: skip
    found.append(F.margin_ranking_loss(w, x * 2, torch.ones(3), margin=s))
    found.append(F.pad(w, (1, 1), value=s))
    return [torch.autograd.grad((y * y).sum(), w)[0] for y in found], [y.detach() for y in found]


def same(a, b):
    if isinstance(a, (list, tuple)):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, torch.Tensor):
        return a.dtype == b.dtype and torch.allclose(a, b, equal_nan=True)
    return a == b


@pytest.mark.parametrize(
    "f",
    [drawn_in_place, drawn_by_name, drawn_by_tensors, with_tensors_for_numbers, dropped, dropped_never_always_and_wrongly, initialised, padded, compared, of_two_numbers, losses_and_gradients],
    ids=lambda f: f.__name__,
)  # fmt: skip
def test_same(f):
    staged = tg.function(f)
    for x in ROWS:
        torch.manual_seed(4)
        want = f(x)
        torch.manual_seed(4)
        found = staged(x)
        assert same(want, found), (want, found)
    assert staged.trace_count == 1


def test_a_leaf_is_not_drawn_in_place():
    def f(x):
        return torch.ones(3, requires_grad=True).uniform_(0, x.item())

    with pytest.raises(RuntimeError, match="leaf"):
        tg.function(f)(torch.tensor(1.0))


def test_the_message_names_the_argument():
    def f(x):
        return torch.cdist(x[None], x[None], p=x[0].item())

    with pytest.raises(tg.errors.GraphBoolError, match=r"cdist\(\) takes argument 'p' as a plain number"):  # fmt: skip
        tg.function(f)(ROWS[0])


def normalised(x):
    s, w = abs(x[2]).item(), x.clone().requires_grad_()
    rows = torch.stack([w, w * 2])
    found = [F.layer_norm(w, (3,), eps=s), F.layer_norm(rows, (2, 3), eps=s), F.layer_norm(rows, [3], x, x + 1, s)]  # fmt: skip
    halves = F.layer_norm(rows.half(), (3,), eps=s)
    return [*found, *torch.autograd.grad(sum((f * x).sum() for f in found), w), halves.float()]


def smoothed(x):
    s, w = min(x[0].item(), 0.7), x.clone().requires_grad_()
    rows, index = torch.stack([w, w * 2]), torch.tensor([0, 2])
    found = [F.cross_entropy(rows, index, label_smoothing=s), F.cross_entropy(rows, rows.softmax(1), label_smoothing=s)]  # fmt: skip
    found.append(F.cross_entropy(rows, index, x.abs(), ignore_index=0, reduction="sum", label_smoothing=s))  # fmt: skip
    return [*found, *torch.autograd.grad(sum(found), w)]


def spaced(x):
    n, s = int(x[0].item() + 1), x[1].item()
    found = [torch.linspace(0, 1, n), torch.linspace(s, 3, n + 3, dtype=torch.float64), torch.linspace(s, s * 2, steps=n + 1)]  # fmt: skip
    return [f.sum() for f in found], [f.shape[0] for f in found]


@pytest.mark.parametrize("program", [normalised, smoothed, spaced])
def test_numbers_that_keep_what_is_computed_near(program):
    f = tg.function(program)
    for x in ROWS:
        torch.testing.assert_close(f(x), program(x), rtol=2e-3, atol=2e-3)
    assert f.trace_count == 1


def too_smooth(x):
    return F.cross_entropy(x[None], torch.tensor([1]), label_smoothing=x[0].item())


def too_few(x):
    return torch.linspace(0, 1, int(x[1].item()))


@pytest.mark.parametrize("program, bad", [(too_smooth, ROWS[0] + 1), (too_few, ROWS[1])])
def test_numbers_out_of_their_range(program, bad):
    for f in (program, tg.function(program)):
        with pytest.raises(RuntimeError, match="must be"):
            f(bad)


def counted(x):
    n = (x[0] + 2).long()
    return torch.linspace(0, 1, n), torch.linspace(0, 3, steps=n), torch.bernoulli(x.abs() / 4, n * 0)  # fmt: skip


def test_a_tensor_of_one_integer_is_taken_as_its_item():
    f = tg.function(counted)
    for x in ROWS:
        torch.testing.assert_close(f(x), counted(x))
    assert f.trace_count == 1


@pytest.mark.parametrize(
    "program, which",
    [
        (lambda x, n: x.cumsum(n), r"cumsum\(\) takes argument 2"),
        (lambda x, n: F.softmax(x, dim=n), r"softmax\(\) takes argument 'dim'"),
    ],
)
def test_a_tensor_that_torch_takes_for_a_plain_number_is_named(program, which):
    with pytest.raises(tg.errors.GraphBoolError, match=which):
        tg.function(program)(torch.ones(2, 2), torch.tensor(1))


def far(x):
    s, w = abs(x[1]).item(), torch.stack([x, x * torch.inf]).requires_grad_()
    zeros = torch.zeros_like(w)
    losses = [loss(w, zeros, reduction="none", **{name: s}) for loss, name in ((F.huber_loss, "delta"), (F.smooth_l1_loss, "beta"))]  # fmt: skip
    return losses, [torch.autograd.grad(l.sum(), w)[0] for l in losses]


def test_losses_of_infinite_errors():
    for x in (torch.tensor([0.1, -0.5, 2.0]), torch.tensor([-3.0, 1.5, 0.0])):
        torch.testing.assert_close(tg.function(far)(x), far(x), equal_nan=True)


def by_places(x):
    s, zeros = abs(x[1]).item(), torch.zeros_like(x)
    return F.smooth_l1_loss(x, zeros, None, None, "sum", s), F.margin_ranking_loss(x, zeros, x.sign(), s, None, None, "sum")  # fmt: skip


def test_the_arguments_of_losses_are_where_torch_has_them():
    for x in ROWS:
        torch.testing.assert_close(tg.function(by_places)(x), by_places(x))


def masked(x):
    s, rows = min(abs(x[1]).item(), 0.9), torch.stack([x, x * 2]).masked_fill(x > 2, -torch.inf)
    total, index = 0.0, torch.tensor([1, 1])
    for i in range(int(x.numel() - x[0].item())):
        total = total + F.cross_entropy(rows, index, label_smoothing=s * i)
    return total, F.cross_entropy(rows, index, label_smoothing=s - s), F.cross_entropy(rows, index, label_smoothing=s)  # fmt: skip


def test_no_smoothing_of_classes_that_are_masked():
    """What is infinite there is left out, not taken zero times."""
    x = torch.tensor([2.0, 0.3, 3.0])
    found = tg.function(masked)(x)
    torch.testing.assert_close(found, masked(x))
    assert [f.isfinite().item() for f in found] == [True, True, False]


@pytest.mark.parametrize(
    "weight, bias",
    [((1,), None), ((2, 3), None), (None, (1,)), ((3,), (2, 3))],
)
def test_parameters_of_other_sizes_are_refused(weight, bias):
    weight, bias = (None if s is None else torch.ones(s) for s in (weight, bias))

    def f(x):
        return F.layer_norm(torch.stack([x, x]), (3,), weight, bias, eps=x[0].item())

    for g in (f, tg.function(f)):
        with pytest.raises((RuntimeError, tg.errors.GraphBoolError)):
            g(ROWS[0])


def test_parameters_of_other_dtypes():
    def f(x, weight, bias):
        return F.layer_norm(x, (3,), weight, bias, eps=abs(x[0]).item())

    x, ones = ROWS[0], torch.ones(3)
    for args in ((x.half(), ones, None), (x.bfloat16(), None, ones), (x.half(), ones, ones)):
        torch.testing.assert_close(tg.function(f)(*args), f(*args), rtol=2e-2, atol=2e-2)
    for args in ((x.double(), ones, None), (x.half(), ones.half(), ones)):
        for g in (f, tg.function(f)):
            with pytest.raises((RuntimeError, tg.errors.GraphBoolError)):
                g(*args)


def laid_out(x):
    return torch.linspace(x[0].item(), 3, 5, layout=torch.strided)


def test_arguments_that_are_not_covered():
    torch.testing.assert_close(tg.function(laid_out)(ROWS[0]), laid_out(ROWS[0]))


def test_names_that_torch_has_not():
    def f(x):
        return torch.isclose(x, x, rtol=abs(x[0]).item(), by=1)

    with pytest.raises(TypeError, match="by"):
        tg.function(f)(ROWS[0])


def some(x):
    return torch.linspace(0, 1, x[0].item())


def one_if(x):
    return torch.linspace(0, 1, x[0].item() > 0)


@pytest.mark.parametrize("program", [some, one_if])
def test_steps_are_a_whole_number(program):
    for f in (program, tg.function(program)):
        with pytest.raises((TypeError, tg.errors.GraphBoolError)):
            f(ROWS[0])


def ignoring(x, k):
    rows, index = torch.stack([x, x * 2, x - 1]).requires_grad_(), torch.tensor([0, 1, 2])
    found = [F.nll_loss(rows, index, ignore_index=k), F.cross_entropy(rows, index, ignore_index=k)]
    found.append(F.cross_entropy(rows, index, ignore_index=k, label_smoothing=abs(x[0]).item() / 9))
    return [*found, *torch.autograd.grad(sum(found), rows)]


def test_a_class_to_ignore():
    """Also once kernels are made, at the second call."""

    @tg.function
    def f(x, k):
        return ignoring(x, k.item())

    for k in (0, 1, 2, -100):
        torch.testing.assert_close(f(ROWS[0], torch.tensor(k)), ignoring(ROWS[0], k))
