"""In-place ops, views and `out=`: native against `tg.function`, results and the final state of all tensors."""

import copy

import pytest
import torch
from torch import nn
from torch.utils import _pytree as pytree

import tograph as tg


def same(x, y):
    flat, structure = pytree.tree_flatten(x)
    other, other_structure = pytree.tree_flatten(y)
    assert structure == other_structure
    for a, b in zip(flat, other, strict=True):
        torch.testing.assert_close(torch.as_tensor(b), torch.as_tensor(a), rtol=0, atol=0)


STATE = torch.zeros(3, 4)  # what the programs capture


def both(function, make_args):
    """(native, converted): each (result, arguments afterwards, captured tensor afterwards), of two calls."""
    out = []
    converted = tg.function(function)
    for run in (function, converted):
        STATE.copy_(torch.arange(12.0).reshape(3, 4))
        args = make_args()
        results = []
        for _ in range(2):
            try:
                results.append(
                    copy.deepcopy(
                        pytree.tree_map(
                            lambda v: v.detach() if isinstance(v, torch.Tensor) else v, run(*args)
                        )
                    )
                )
            except (RuntimeError, IndexError, TypeError, ValueError) as error:
                results.append("error")
                results.append(error)
        out.append(
            ([r for r in results if not isinstance(r, Exception)], args, STATE.clone(), results)
        )
    return out


def matrix():
    return (torch.arange(12.0).reshape(3, 4) - 5, torch.tensor([3.0, -1.0, 2.0, 7.0]))


# Each program writes to its argument x (3, 4), and may use the vector v (4,). They return what they like.
PROGRAMS = r"""
x[1] = v
x[1] = 2
x[1, 2] = 5
x[-1, -1] = v[0]
x[1:] = v
x[:, 1:3] = 7
x[::2, ::3] = 1
x[..., 0] = -1
x[x > 0] = 0
x[x > 0] += 1
x[x > 0] *= x[x > 0]
x[torch.tensor([0, 0, 2])] = v
x[[2, 0]] += v
x[[0, 1], [1, 2]] = v[:2]
x[:, [0, 3]] = 9
x[0, x[0] > -4] = 1
x[None, 1] = v
x[True] = 3
x[:, 2].mul_(2)
x[1:, 1:].add_(v[1:])
x.t().add_(1)
x.t()[1] = 8
x.transpose(0, 1)[2].zero_()
x.permute(1, 0)[3] = v[:3]
x[1:][0][2:] = 4
x.view(-1)[5] = 1
x.view(4, 3)[1] = 1
x.view(2, 6).t()[0] = v[:2]
x.reshape(-1)[::3].mul_(-1)
x.flatten().add_(1)
x.unsqueeze(0)[0, 1] = v
x[1].unsqueeze(-1).add_(2)
x[:1].squeeze(0).mul_(3)
x[:1].squeeze().mul_(3)
x.diagonal().fill_(1)
x.diagonal(1).add_(v[:3])
torch.diagonal(x, -1).zero_()
x.split(2)[0].add_(1); x.split(2)[1].zero_()
x.split([1, 2])[1].mul_(2)
x.split([1, 3], dim=1)[1].mul_(2)
x.split(3, dim=-1)[1].mul_(2)
x.chunk(2, dim=1)[1].copy_(torch.ones(3, 2))
x.chunk(2, dim=-1)[0].neg_()
a, b, c = x.unbind(); b += 1
x.unbind(1)[2].zero_()
x.unbind(-1)[1].zero_()
a, b, c = x; a.mul_(2); c.copy_(a)
for row in x: row.add_(row.sum())
x.tensor_split(3, dim=1)[2].fill_(6)
x.narrow(1, 1, 2).fill_(6)
x.select(1, 3).fill_(6)
x.unfold(1, 2, 2)[:, 0].fill_(6)
x.as_strided((2, 2), (4, 1), 1).fill_(6)
x.swapaxes(0, 1)[0].fill_(6)
x.movedim(0, 1)[1].fill_(6)
x.unflatten(1, (2, 2))[:, 1, 0].fill_(6)
x.T[0].fill_(6)
x.mT[0].fill_(6)
x.detach().add_(1)
x.data.add_(1)
x.zero_()
x.fill_(3)
x.fill_(v[0])
x.copy_(v)
x.copy_(v.int())
x.copy_(v.double()[:, None].expand(4, 4)[:3])
x.clamp_(0, 2)
x.clamp_(min=v)
x.relu_()
torch.relu_(x)
x.masked_fill_(x > 0, -1)
x.masked_fill_(x > 0, v[1])
x.masked_scatter_(x > 2, v)
x.scatter_(1, torch.tensor([[0], [1], [2]]), 9.0)
x.scatter_(0, torch.tensor([[0, 1, 2, 0]]), v[None])
x.scatter_add_(1, torch.tensor([[0, 0], [1, 1], [2, 2]]), x[:, :2].clone())
x.scatter_reduce_(1, torch.tensor([[0, 0], [1, 1], [2, 2]]), x[:, :2].clone(), 'amax')
x.index_fill_(1, torch.tensor([0, 2]), 5)
x.index_copy_(0, torch.tensor([2]), v[None])
x.index_add_(0, torch.tensor([0, 0]), torch.stack([v, v]), alpha=2)
x.index_put_((torch.tensor([0, 0]),), v, accumulate=True)
x[1].index_put_((torch.tensor([0, 2]),), v[0])
x.fill_diagonal_(4)
x.tril_()
x.lerp_(torch.ones(3, 4), 0.5)
x.addcmul_(v, v, value=2)
x.addcdiv_(v, v)
x.pow_(2).sub_(1)
x += v; x -= 1; x *= 2; x /= 4
x //= 2
x %= 3
x **= 2
x.squeeze_(); x.add_(1)
x.resize_(3, 4)
x.resize_as_(x.clone()).copy_(x + 1)
x.swap = None; x.add_(1)
torch.add(x, v, out=x)
torch.mul(x, 2, out=x[:])
torch.sum(x[1:], 0, out=x[0])
torch.max(x, 1, out=(x[:, 0], torch.empty(3, dtype=torch.int64)))
torch.stack([v, v, v], out=x)
y = x[1]; x.add_(1); v.copy_(y)
y = x[1]; z = y[1:]; y.mul_(2); v[1:] = z
y = x.t(); x[0] = 1; v[:3] = y[0]
y = x.view(-1); z = x[1]; y[5] = 100; v.copy_(z)
y = x.clone(); z = y[1:]; y[1] = v; x[0] = z[0]
y = torch.zeros(3, 4); z = y.t(); z[1] = 1; y[2] += 5; x.copy_(y); v.copy_(z[:, 2])
y = x.expand(2, 3, 4); x.add_(1); v.copy_(y[1, 2])
y = v.expand(3, 4); v.mul_(2); x.copy_(y)
y = x; y += 1; x.mul_(2)
y = x.reshape(4, 3); y.zero_()
y = x.t().reshape(-1); y.zero_(); x[0] = y[:4]
y = x.contiguous(); y.add_(1)
y = x.to(torch.float32); y.add_(1)
y = x.float(); y.add_(1); z = x.double(); z.zero_()
y = x[[0, 1]]; y.zero_()
y = x.real; y.add_(1)
x.numpy; x.add_(1)
STATE.add_(x)
STATE[1] = v
STATE.t()[2].mul_(2); x.copy_(STATE)
s = STATE[0]; STATE.zero_(); s.add_(1); x.copy_(STATE)
STATE.copy_(x); x.zero_()
x.copy_(STATE); STATE.fill_(1)
STATE[STATE > 3] = 0
torch.add(STATE, v, out=STATE)
v.sub_(1), x[0].add_(v)
v[0] = x[0, 0]; x[0, 0] = v[1]
x[0], x[1] = x[1].clone(), x[0].clone()
x[0] = x[1]; x[1] = x[0]
x[:, 0], v[:3] = v[:3], x[:, 0]
if v.sum() > 5: x[1] = v
if v.sum() > 50: x.zero_()
if x.sum() > 50: x.zero_()\nelse: STATE.add_(1); x[0].mul_(3)
y = x[1]\nif v[0] > 0: y.zero_()\nx.add_(1)
y = x.clone(); z = y[1]\nif v[0] > 0: y.zero_()\nx.copy_(z)
y = x.clone(); z = y[1]\nif v[0] > 0: z.zero_()\nx.copy_(y)
i = v[0].int()\nwhile i > 0: x[i - 1] += v; i = i - 1
i = v[0].int()\nwhile i > 0: x.t()[i].add_(1); STATE.mul_(2); i -= 1
n = v[2].int()\nfor i in range(n): x[i] = x[i + 1] * 2
n = v[2].int()\nfor i in range(n): x[:, i].add_(i)
n = v[2].int()\nfor i in range(n): x[i:].add_(1)
y = torch.zeros(4); n = v[2].int()\nfor i in range(n): y[i] = i + 1\nx.copy_(y)
y = torch.zeros(4); z = y[1:]; n = v[2].int()\nfor i in range(n): z[i] += y[i] + 1\nx.copy_(y)
for i in range(3): x[i].mul_(i)
w = x\nif v[0] > 0: w = x * 2\nw[-1] += 3\nw[-1] += 3\nif v[1] < 0: w[-1] += 3\nw += 1; v += w.sum()
w = torch.ones(4)\nfor i in range(3):\n    if v[i] > 0: w[-1] += 3\n    else: w = w * 0.5\nx += w
w = torch.ones(4)\nif v[0] > 0: w = torch.relu(w) + 1\nelif v[1] > 0: pass\nw[v[2].int() % 3] = 7\nx += w + w
w = v\nif v[0] > 0: w = torch.zeros(4)\nw[0] += 1; v[1] += 1; w[1] += v[1]; u = w[1:]; u += 1; w[2] += 1; x += w; x[0, :3] += u
""".strip().splitlines()


def build(text):
    lines = text.replace("\\n", "\n").splitlines()
    source = (
        "def f(x, v):\n"
        + "".join(f"    {line}\n" for line in lines)
        + "    return x + 0, v + 0, STATE + 0\n"
    )
    return source


@pytest.mark.parametrize("text", PROGRAMS)
def test_program(text, tmp_path):
    path = tmp_path / "program.py"
    path.write_text(build(text))
    namespace = {"torch": torch, "STATE": STATE}
    exec(compile(build(text), str(path), "exec"), namespace)
    native, converted = both(namespace["f"], matrix)
    errors = [[r for r in run[3] if isinstance(r, Exception)] for run in (native, converted)]
    assert list(map(type, errors[0])) == list(map(type, errors[1])), errors
    same(native[:3], converted[:3])


@pytest.mark.parametrize(
    "text",
    [
        "x.t_()",
        "x.transpose_(0, 1)",
        "x.unsqueeze_(0)",
        "x.resize_(2)",
        "x.resize_as_(v)",
        "x.set_(v)",
    ],
)
def test_change_of_shape_in_place_is_refused(text):
    function = eval(f"lambda x, v: {text}")
    with pytest.raises(tg.errors.UnsupportedOpError):
        tg.function(function, autograph=False)(*matrix())


# ---- functions with more structure


def test_aliased_arguments_see_each_other():
    def f(x, y):
        x.add_(1)
        return y * 1

    x = torch.zeros(3)
    assert (
        tg.function(f)(x, x).tolist() == f(torch.zeros(3), torch.zeros(3) + 1).tolist() == [1, 1, 1]
    )


def test_view_of_an_argument_as_a_second_argument():
    def f(x, row):
        x.zero_()
        return row + 1

    x = torch.ones(2, 3)
    with pytest.raises(tg.errors.SharedMemoryError, match="shares memory"):
        tg.function(f)(x, x[0])
    assert x.tolist() == [[1, 1, 1], [1, 1, 1]]


def test_the_result_is_the_argument():
    def f(x):
        return x.add_(1)

    x = torch.zeros(3)
    out = tg.function(f)(x)
    assert x.tolist() == out.tolist() == [1, 1, 1]


def test_a_local_tensor_is_fresh_at_every_call():
    def f(x):
        y = torch.zeros(2)
        y += x
        z = torch.tensor([1.0, 2.0])
        z.mul_(x)
        return y, z

    g = tg.function(f)
    for _ in range(2):
        same(g(torch.ones(2)), f(torch.ones(2)))


def test_result_does_not_change_with_later_calls():
    state = torch.zeros(2)

    @tg.function
    def f(x):
        state.add_(x)
        return state, state * 1, state[:1]

    first = f(torch.ones(2))
    second = f(torch.ones(2))
    assert first[1].tolist() == [1, 1]
    assert second[1].tolist() == state.tolist() == [2, 2]


def test_writes_before_an_error_are_visible_and_later_ones_are_not():
    def f(x, i):
        x[0] = 1
        y = x[i]
        x[1] = 1
        return y

    for run in (f, tg.function(f)):
        x = torch.zeros(3)
        with pytest.raises(IndexError):
            run(x, torch.tensor([7]))
        assert x.tolist() == [1, 0, 0]


@pytest.mark.parametrize("train", [True, False])
@pytest.mark.parametrize("kwargs", [{}, {"affine": False}, {"track_running_stats": False}])
def test_batch_norm_updates_its_statistics(train, kwargs):
    plain = nn.BatchNorm1d(3, **kwargs).train(train)
    module = copy.deepcopy(plain)
    f = tg.function(lambda x: module(x))
    for i in range(3):
        x = torch.arange(6.0).reshape(2, 3) * (i + 1)
        # Native code adds up in another order.
        torch.testing.assert_close(f(x).detach(), plain(x).detach(), rtol=1e-6, atol=1e-6)
        same(dict(plain.named_buffers()), dict(module.named_buffers()))


def test_statistics_of_a_batch_norm_in_a_branch():
    module = nn.BatchNorm1d(3)

    @tg.function
    def f(x):
        if x.sum() > 0:
            x = module(x)
        return x

    f(-torch.ones(2, 3))
    assert module.running_mean.tolist() == [0, 0, 0]
    f(torch.ones(2, 3))
    torch.testing.assert_close(module.running_mean, torch.full((3,), 0.1))


@pytest.mark.parametrize("foreach", [True, False])
@pytest.mark.parametrize(
    "make",
    [
        lambda p, **k: torch.optim.SGD(p, lr=0.1, **k),
        lambda p, **k: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, **k),
        lambda p, **k: torch.optim.Adam(p, lr=0.1, **k),
        lambda p, **k: torch.optim.AdamW(p, lr=0.1, amsgrad=True, **k),
        lambda p, **k: torch.optim.RMSprop(p, lr=0.1, **k),
    ],
)
def test_optimizer_step(make, foreach):
    plain = nn.Linear(3, 2)
    module = copy.deepcopy(plain)
    optimizers = [make(m.parameters(), foreach=foreach) for m in (plain, module)]

    def step(module, optimizer, x):
        loss = module(x).pow(2).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    f = tg.function(lambda x: step(module, optimizers[1], x))
    for i in range(3):
        x = torch.ones(2, 3) * (i + 1)
        torch.testing.assert_close(f(x), step(plain, optimizers[0], x))
    torch.testing.assert_close(list(module.parameters()), list(plain.parameters()))


# ---- writes that autograd does not see: a tensor keeps its history


def leaf_without_grad(w, x):
    with torch.no_grad():
        w.sub_(0.1)
    return (w * x).sum()


def leaf_read_without_grad(w, x):
    with torch.no_grad():
        a = w.sum()
    y = (w + x).sum() + a
    with torch.no_grad():
        w.sub_(0.1)
    return y


def leaf_data(w, x):
    w.data.sub_(0.1)
    return (w * x).sum()


def leaf_in_a_branch(w, x):
    if x.sum() > 0:
        with torch.no_grad():
            w.sub_(0.1)
        y = (w * x).sum()
    else:
        y = w.sum()
    return y


def leaf_in_a_branch_only(w, x):
    if x.sum() > 0:
        with torch.no_grad():
            w.sub_(0.1)
    return w.sum() + x.detach().sum()


def argument(w, x):
    with torch.no_grad():
        x.sub_(0.1)
    return (w * x).sum()


def computed(w, x):
    y = x * 2
    with torch.no_grad():
        y[0].add_(1)
    return (w * y).sum()


def computed_in_a_branch(w, x):
    y = x * 2
    if x.sum() > 0:
        with torch.no_grad():
            y.add_(1)
    return (w * y).sum()


def computed_in_a_loop(w, x):
    y, total = x * 2, torch.zeros(3)
    for _ in tg.range(3):
        y = y * w
        with torch.no_grad():
            y.clamp_(-1, 1)
        total = total + y
    return total.sum()


def through_detach(w, x):
    y = x * 2
    y.detach().mul_(w.detach())
    return (w * y).sum()


def through_data(w, x):
    y = x * 2
    y.data[0] = 5.0
    return (w * y).sum()


def data_as_a_value(w, x):
    y = x * 2
    return (y.data * w).sum() + (y * y.data).sum()


def detached_in_place(w, x):
    v = (x * w).detach_()
    for _ in tg.range(2):
        y = (x * w).detach_()
    return (v * y * w).sum() + x.sum()


def as_a_result(w, x):
    y = x * 1
    with torch.no_grad():
        torch.mul(x, 2, out=y)
    return (y * w.detach()).sum()


def several(w, x):
    y = x * 1
    with torch.no_grad():
        torch._foreach_mul_([y], 2.0)
    return (y * y).sum()


def step(w, x):
    loss = (w * x.detach()).square().sum()
    (g,) = torch.autograd.grad(loss, w)
    with torch.no_grad():
        w.sub_(0.1 * g)
    return (w * x).sum()


UNSEEN = [leaf_without_grad, leaf_read_without_grad, leaf_data, leaf_in_a_branch, leaf_in_a_branch_only, argument, computed, computed_in_a_branch,
          computed_in_a_loop, through_detach, through_data, data_as_a_value, detached_in_place, as_a_result, several, step]  # fmt: skip


@pytest.mark.parametrize("f", UNSEEN, ids=lambda f: f.__name__)
def test_writes_that_autograd_does_not_see(f):
    found = []
    for wrap in (lambda f: f, tg.function):
        w = torch.tensor([1.0, 2.0, 0.5], requires_grad=True)
        x = torch.tensor([0.5, -1.0, 2.0], requires_grad=True)
        y = wrap(lambda x: f(w, x))(x)  # noqa: B023
        (y * 2).backward()
        found += [
            [
                y.detach(),
                w.detach(),
                x.detach(),
                *(torch.zeros(3) if g is None else g for g in (w.grad, x.grad)),
            ]
        ]
    torch.testing.assert_close(*found)


def test_writes_that_autograd_does_not_see_under_transforms():
    def f(x):
        y = x.sin()
        with torch.no_grad():
            y.mul_(2)
        return (y * y).sum()

    x = torch.tensor([0.5, -1.0])
    torch.testing.assert_close(torch.func.grad(tg.function(f))(x), torch.func.grad(f)(x))
    torch.testing.assert_close(torch.func.hessian(tg.function(f))(x), torch.func.hessian(f)(x))


def test_gradients_that_are_written_in_place_where_only_the_run_knows_that_sizes_are_equal():
    def f(w, x, n):
        rows, marks, i = [], [], 0
        while i < n:
            rows.append(x * i)
            marks.append(x[0] + i % 2)
            i += 1
        table, marks = torch.stack(rows) @ w, torch.stack(marks)
        loss = torch.min(table.exp() * marks, table.clamp(0.8, 1.2) * marks).sum()
        if loss < 100:
            loss.backward()
        return loss.detach(), w.grad

    g, x = tg.function(f), torch.tensor([0.5, 1, 2])
    for n in (2, 5):
        w, plain = (torch.tensor([0.1, -0.2, 0.3], requires_grad=True) for _ in range(2))
        torch.testing.assert_close(g(w, x, torch.tensor(n)), f(plain, x, torch.tensor(n)))


def one_of_those_that_share_a_place(x):
    x[:3].unsqueeze(1).expand(3, 4)[0][1] = 5
    return x


def rows_of_what_is_expanded(x):
    for r in x[:3].view(3, 1).expand(3, 4):
        if x.sum() > 0:
            r[1] = r[0] + 1
    return x * 2


def a_grid(x):
    torch.meshgrid(x[:2], x, indexing="ij")[0][1, 2] *= 3
    return x


@pytest.mark.parametrize("f", [one_of_those_that_share_a_place, rows_of_what_is_expanded, a_grid])
def test_a_part_of_an_expanded_tensor_is_written(f):
    staged = tg.function(f)
    for first in (1.0, -20.0, 2.0):
        mine, its = (torch.tensor([first, 2.0, 3.0, 4.0]) for _ in range(2))
        assert f(mine).equal(staged(its))
        assert mine.equal(its)


def test_abs_of_complex_numbers_in_place_is_torchs_error():
    def absolute(z):
        z = z * 1
        if z.real.sum() > 0:
            z.abs_()
        return z

    f, z = tg.function(absolute), torch.tensor([1 + 2j])
    assert torch.equal(f(-z), -z)
    with pytest.raises(RuntimeError, match="In-place abs is not supported for complex tensors"):
        f(z)


def double_layers(x, n):
    torch.manual_seed(0)
    net = torch.nn.Sequential(
        torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 1)
    ).double()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    for _ in range(n):
        optimizer.zero_grad()
        net(x.double()).square().mean().backward()
        optimizer.step()
    return [*net.parameters()], net[1].running_mean


def data_of_another_shape(x, n):
    w = torch.nn.Parameter(torch.ones(3))
    w.data = torch.ones(2, 3) * n
    return (w * x[:2]).sum(), w


def a_layer_with_gradients(x, n):
    layer = torch.nn.Linear(3, 2)
    layer(x * n).sum().backward()
    layer.to(torch.bfloat16)
    return layer.weight.grad, layer.bias


@pytest.mark.parametrize("f", [double_layers, data_of_another_shape, a_layer_with_gradients])
def test_data_of_another_dtype_or_shape_of_what_the_function_made(f):
    x = torch.linspace(-1, 1, 12).reshape(4, 3)
    rows = []
    for g in (tg.function(f), f):
        torch.manual_seed(0)
        outs = torch.utils._pytree.tree_leaves(g(x, torch.tensor(2)))
        rows.append([(o.detach(), o.dtype, o.requires_grad) for o in outs])
    for ours, plain in zip(*rows):
        torch.testing.assert_close(ours[0], plain[0])
        assert ours[1:] == plain[1:]


def test_data_of_another_dtype_of_an_argument_is_refused():
    @tg.function
    def f(x):
        x.data = x.double()
        return x * 1

    with pytest.raises(tg.errors.UnsupportedOpError, match="another shape, dtype or device"):
        f(torch.ones(2))


def test_a_dimension_of_known_size_is_squeezed_in_place():
    """Beside one that only the run knows; so do ops of torch (``quantile``, whose C++ in 2.11 asks for the number of elements)."""
    by_torch = torch.__version__ >= "2.12"

    def f(x, dim):
        y = x[x[:, 0] > 0].unsqueeze(1) * 2
        rows = x[x[:, 0] > 0]
        return y.squeeze_(dim).add_(1), rows.quantile(0.3, 1) if by_torch else rows

    g, x = tg.function(f), torch.tensor([[1.0, 2.0], [-1.0, 0.0], [3.0, 0.0]])
    for dim in (1, -2, 2):
        torch.testing.assert_close(g(x, dim), f(x, dim))


@pytest.mark.parametrize("dtype", [torch.float32, torch.uint8, torch.bool, torch.float16], ids=str)
def test_a_number_is_copied(dtype):
    """As a tensor of its own type would be: what does not fit wraps."""

    def f(x, n):
        whole, part, staged = x.clone(), x.clone(), x.clone()
        whole.copy_(300.7)
        part[0].copy_(True)
        staged.copy_(n.sum().item())
        if n.sum() > 0:
            whole.copy_(-3)
        return whole, part * 1, staged

    x, n, g = torch.ones(2, 3).to(dtype), torch.tensor([3, 4]), tg.function(f)
    for _ in range(2):
        for found, wanted in zip(g(x, n), f(x, n), strict=True):
            assert found.dtype == wanted.dtype and torch.equal(found, wanted)
