"""Tracing: captures, scope, values that code asks for too early, symbolic sizes, promotion, cost of the first trace."""

import functools
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import tograph as tg

ROOT = Path(__file__).parents[2]
WEIGHT = torch.ones(3)


def graph_of(function, *args):
    return tg.function(function).get_concrete_function(*args).graph


# ---- captures


def test_captured_tensor_is_read_by_reference():
    weight = torch.ones(3)
    f = tg.function(lambda x: x * weight)
    assert f(torch.ones(3)).tolist() == [1, 1, 1]
    weight.fill_(5)
    assert f(torch.ones(3)).tolist() == [5, 5, 5]
    assert f.trace_count == 1
    assert f.get_concrete_function(torch.ones(3)).captured_inputs == [weight]


def test_captures_through_nested_regions():
    weight, bias = torch.full((3,), 2.0), torch.ones(3)

    def f(x, n):
        scale = x.sum()
        while n > 0:
            if n > 1:
                x = x * weight + scale
            else:
                x = x + bias
            n = n - 1
        return x

    g = tg.function(f)
    args = torch.ones(3), torch.tensor(3)
    assert g(*args).tolist() == f(*args).tolist()
    concrete = g.get_concrete_function(*args)
    assert {id(t) for t in concrete.captured_inputs} == {id(weight), id(bias)}
    weight.fill_(3)
    assert g(*args).tolist() == f(*args).tolist()


def test_one_input_for_a_tensor_that_is_captured_twice():
    weight = torch.ones(3)

    def inner(x):
        return x * weight

    def f(x):
        return inner(x) + weight + WEIGHT

    concrete = tg.function(f).get_concrete_function(torch.ones(3))
    assert len(concrete.captured_inputs) == 2
    assert len(concrete.graph.inputs) == 3


def test_captures_of_a_called_function():
    weight = torch.ones(3)
    inner = tg.function(lambda x: x * weight)

    def f(x):
        return inner(x) + inner(x * 2)

    g = tg.function(f)
    assert g(torch.ones(3)).tolist() == [3, 3, 3]
    weight.fill_(2)
    assert g(torch.ones(3)).tolist() == [6, 6, 6]
    assert "Call(" in str(g.get_concrete_function(torch.ones(3)).graph)


# ---- scope


def leaked(function, *args):
    found = []
    hidden = tg.do_not_convert(function)
    tg.function(lambda *a: hidden(found, *a))(*args)
    return found[0]


def test_a_tensor_of_a_finished_trace_is_out_of_scope():
    x = leaked(lambda found, x: found.append(x * 2), torch.ones(1))
    for use in (
        lambda: x + 1,
        lambda: torch.ones(3) + x,
        lambda: x.sum(),
        lambda: x.item(),
        lambda: x.detach(),
    ):
        with pytest.raises(tg.errors.ScopeError, match="out of scope"):
            use()


def test_a_tensor_of_another_function_is_out_of_scope():
    x = leaked(lambda found, x: found.append(x * 2), torch.ones(3))
    with pytest.raises(tg.errors.ScopeError, match="out of scope"):
        tg.function(lambda y: y + x)(torch.ones(3))


class Box:
    pass


def test_a_tensor_that_a_library_puts_into_an_object_is_state():
    box = Box()

    @tg.do_not_convert
    def keep(x):
        object.__setattr__(box, "x", x)

    def f(x):
        if x.sum() > 0:
            y = x * 2
            keep(y)
        return x + box.x

    converted = tg.function(f)
    with pytest.raises(AttributeError, match="x"):
        converted(-torch.ones(3))
    assert torch.equal(converted(torch.ones(3)), torch.full((3,), 3.0))
    assert torch.equal(box.x, torch.full((3,), 2.0))


# ---- values asked for too early


@pytest.mark.parametrize(
    ("use", "error"),
    [
        (bool, tg.errors.GraphBoolError),
        (int, tg.errors.GraphBoolError),
        (float, tg.errors.GraphBoolError),
        (complex, tg.errors.GraphBoolError),
        (lambda x: [1, 2][x.long()], tg.errors.GraphBoolError),
        (lambda x: 1 if x > 0 else 2, tg.errors.GraphBoolError),
        (lambda x: x in [x + 1, 3], tg.errors.GraphBoolError),
        (lambda x: range(x.long()), tg.errors.GraphBoolError),
        (lambda x: x.numpy(), tg.errors.SymbolicValueError),
        (lambda x: x.__array__(), tg.errors.SymbolicValueError),
        (lambda x: bool(x.item()), tg.errors.GraphBoolError),
        (lambda x: int(x.item()), tg.errors.GraphBoolError),
        (lambda x: 1 if x.item() > 2 else 0, tg.errors.GraphBoolError),
        (lambda x: [1, 2][x.long().item()], tg.errors.GraphBoolError),
    ],
)
def test_value_of_a_symbolic_tensor_in_code_that_is_not_converted(use, error):
    use = tg.do_not_convert(use)
    with pytest.raises(error, match="only when the graph runs"):
        tg.function(lambda x: use(x))(torch.tensor(1.0))
    with pytest.raises(error, match="only when the graph runs"):
        tg.function(use, autograph=False)(torch.tensor(1.0))


def test_errors_are_those_of_python_too():
    assert issubclass(tg.errors.GraphBoolError, TypeError)
    assert issubclass(tg.errors.SymbolicValueError, NotImplementedError)


def test_item_is_a_number_of_the_graph():
    def f(x):
        return x.item() * 2 + 1

    g = tg.function(f)
    assert [g(torch.tensor(v)) for v in (1.5, 2.5)] == [4.0, 6.0]
    assert g.trace_count == 1
    with pytest.raises(RuntimeError, match="3 elements cannot be converted to Scalar"):
        tg.function(f)(torch.ones(3))


def test_metadata_is_known_while_tracing():
    def f(x):
        assert (x.shape, x.dtype, x.dim(), x.device.type, len(x)) == (
            (3, 2),
            torch.float32,
            2,
            "cpu",
            3,
        )
        assert x.numel() == 6
        assert x.is_contiguous()
        assert not x.t().is_contiguous()
        return x.reshape(x.size(1), -1)

    assert tg.function(f)(torch.ones(3, 2)).shape == (2, 3)


# ---- symbolic sizes

ANY = tg.TensorSpec([None], torch.float32)


def dynamic(function, *specs):
    return tg.function(function, input_signature=list(specs) or [ANY])


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.shape[0] * 2,
        lambda x: x + torch.ones(x.shape[0]),
        lambda x: x.reshape(1, -1),
        lambda x: x.reshape(x.shape[0], 1).expand(x.shape[0], 3),
        lambda x: torch.cat([x, x]),
        lambda x: torch.stack([x, x]).sum(0),
        lambda x: x.sum() / x.shape[0],
        lambda x: x / len(x),
        lambda x: x[1:],
        lambda x: x.new_zeros(x.size(0) + 1),
        lambda x: torch.arange(x.shape[0]) * 2,
        lambda x: x.numel() + 1,
        lambda x: x.softmax(0),
        lambda x: x.unsqueeze(1) * x,
        lambda x: x.flip(0),
        lambda x: x.cumsum(0).mean(),
        lambda x: x * 2 if x.shape[0] > 2 else x * 3,
        lambda x: (x.sort()[0], x.max()),
        lambda x: torch.outer(x, x).sum(1),
        lambda x: torch.zeros_like(x).copy_(x),
    ],
)
def test_symbolic_size(function):
    g = dynamic(function)
    for n in (4, 2, 7, 1):
        torch.testing.assert_close(
            g(torch.arange(n) + 1.0), function(torch.arange(n) + 1.0), check_dtype=True
        )


def test_one_trace_for_all_sizes():
    g = dynamic(lambda x: x.sum() + x.shape[0])
    assert [float(g(torch.ones(n))) for n in (0, 1, 2, 5)] == [0, 2, 4, 10]
    assert g.trace_count == 1
    assert "f32[?]" in str(g.get_concrete_function().graph)


def test_size_is_a_symint_and_the_type_says_so():
    seen = []

    def f(x):
        seen.append(type(x.shape[0]))
        return x * 2

    dynamic(f)(torch.ones(3))
    assert issubclass(seen[0], torch.SymInt)


def test_a_loop_over_a_symbolic_size():
    def f(x):
        total = 0.0
        for i in range(x.shape[0]):
            total = total + x[i] * i
        return total

    g = dynamic(f)
    for n in (1, 3, 5):
        torch.testing.assert_close(
            torch.as_tensor(g(torch.ones(n))), torch.as_tensor(f(torch.ones(n)))
        )
    assert g.trace_count == 1


def test_sizes_that_do_not_fit_fail_when_the_graph_runs():
    g = dynamic(lambda x, y: x + y, ANY, ANY)
    assert g(torch.ones(3), torch.ones(3)).tolist() == [2, 2, 2]
    with pytest.raises(RuntimeError, match="must match"):
        g(torch.ones(3), torch.ones(4))


# ---- promotion of Python numbers


@pytest.mark.parametrize(
    "dtype",
    [
        torch.float16,
        torch.float32,
        torch.float64,
        torch.int32,
        torch.int64,
        torch.uint8,
        torch.bool,
    ],
    ids=str,
)
@pytest.mark.parametrize("start", [1, 0.5, True])
def test_a_number_of_a_loop_promotes_as_a_number(dtype, start):
    def f(x, n):
        s = start
        while n > 0:
            s = s + 1
            n = n - 1
        return x * s, s

    args = torch.ones(3, dtype=dtype), torch.tensor(2)
    native, converted = f(*args), tg.function(f)(*args)
    assert converted[0].dtype == native[0].dtype
    torch.testing.assert_close(converted[0], native[0])
    assert float(converted[1]) == float(native[1])


def test_numbers_are_64_bit_in_a_loop():
    def f(n):
        s, t = 1, 0.1
        while n > 0:
            s, t, n = s * 3, t + 0.1, n - 1
        return s, t

    native, converted = f(torch.tensor(30)), tg.function(f)(torch.tensor(30))
    assert int(converted[0]) == native[0] == 3**30
    assert float(converted[1]) == native[1]


# ---- constants


def test_a_tensor_made_of_numbers_is_a_constant_of_the_graph():
    graph = graph_of(lambda x: x + torch.tensor([1.0, 2.0, 3.0]), torch.ones(3))
    assert [n.op for n in graph.nodes] == ["tg.constant", "aten.add.Tensor"]
    assert graph.nodes[0].args[0] == [1.0, 2.0, 3.0]


def test_a_large_constant_is_captured():
    f = tg.function(lambda x: x + torch.tensor(list(range(100))))
    assert f(torch.ones(100)).tolist() == [i + 1.0 for i in range(100)]


def test_random_numbers_follow_the_seed():
    f = tg.function(lambda: torch.rand(3) + torch.randn(3))
    torch.manual_seed(0)
    first, second = f(), f()
    torch.manual_seed(0)
    assert torch.equal(first, torch.rand(3) + torch.randn(3))
    assert not torch.equal(first, second)


def test_no_grad_is_part_of_the_graph():
    def f(x):
        with torch.no_grad():
            y = x * 2
        return x * y

    x = torch.ones(3, requires_grad=True)
    graph = graph_of(f, x)
    assert [n.grad for n in graph.nodes] == [False, True]


def test_unknown_ops_are_recorded_by_name():
    graph = graph_of(lambda x: torch.special.bessel_j0(x), torch.ones(3))
    assert [n.op for n in graph.nodes] == ["aten.special_bessel_j0.default"]


# ---- the cost of a first trace

SIXTY_OPS = """
import sys
import torch, torch.nn.functional as F
import tograph as tg

w, b = torch.randn(8, 8), torch.randn(8)

def f(x, y):
    h = F.linear(x, w, b)
    h = F.relu(h) + torch.sigmoid(h) * torch.tanh(h) - F.gelu(h) / 2
    h = F.layer_norm(h, (8,)) * 1.5 + F.silu(h) ** 2
    h = torch.where(h > 0, h, h * 0.1).clamp(-3, 3)
    p = F.softmax(h, -1) + F.log_softmax(h, -1).exp()
    q = (h @ w).t().reshape(8, -1).sum(1) + h.mean(0) + h.amax(0) + h.var(0)
    r = torch.cat([h, p]).max(1)[0].cumsum(0).unsqueeze(0).expand(2, -1)
    z = torch.zeros(3) + torch.ones(3) + torch.full((3,), 2.0) + torch.arange(3) + torch.rand(3)
    z[0] = 1; z[1:] += 2
    i = torch.argmax(h, 1); g = h.gather(1, i[:, None]).squeeze(1) + h.index_select(1, torch.tensor([0]))[:, 0]
    k = (h.abs().sqrt() + h.exp().log1p() + h.sin() * h.cos() + h.erf() + h.floor() + h.round() + h.neg()).sum()
    c = F.conv2d(x.reshape(1, 1, 4, 8), torch.ones(2, 1, 3, 3), padding=1)
    c = F.max_pool2d(F.batch_norm(c, torch.zeros(2), torch.ones(2)), 2).mean()
    e = F.embedding(y, w).sum() + F.cross_entropy(h, y) + F.mse_loss(h, p) + torch.stack([h, p]).prod()
    a = F.scaled_dot_product_attention(h[None, None], h[None, None], h[None, None]).norm()
    while k > 0:
        k = k - 10 * h.abs().sum() - 1
    return q, r, z, g, k, c, e, a

concrete = tg.function(f).get_concrete_function(torch.randn(4, 8), torch.tensor([0, 1, 2, 3]))
assert len(concrete.graph.nodes) > 60, len(concrete.graph.nodes)
print(*(m for m in ("torch._dynamo", "torch.fx.experimental.symbolic_shapes", "torch._subclasses.fake_tensor",
                    "torch._meta_registrations") if m in sys.modules and m not in BEFORE))
"""


def test_tracing_imports_no_compiler():
    source = "import sys, torch\nBEFORE = set(sys.modules)\n" + SIXTY_OPS
    script = f"import linecache\nsource = {source!r}\nlinecache.cache['sixty.py'] = (len(source), None, source.splitlines(True), 'sixty.py')\n"
    script += "exec(compile(source, 'sixty.py', 'exec'))\n"
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == ""


@torch.inference_mode()
def views_of_arguments(x, n):
    rows = [x[0], x[1:].view(-1), x.t()]
    while n > 0:
        x[0] += 1
        n = n - 1
    return rows[0] + 1, rows[1] * 2, rows[2].sum(), x.select(0, 1)


def test_views_under_inference_mode():
    x, n = torch.arange(6.0).view(2, 3), torch.tensor(2)
    y = x.clone()
    torch.testing.assert_close(
        tg.function(views_of_arguments)(x, n), views_of_arguments(y, torch.tensor(2))
    )
    assert torch.equal(x, y)


def no_rounding(x, y, n):
    while n > 0:
        x = torch.div(x, y, rounding_mode=None) + torch.divide(x, 3, rounding_mode=None)
        n = n - 1
    return x


def test_none_for_an_argument_without_a_default():
    args = (torch.tensor([1.0, -5.0]), torch.tensor([2.0, 3.0]), torch.tensor(2))
    staged = tg.function(no_rounding)
    torch.testing.assert_close(staged(*args), no_rounding(*args))
    text = str(staged.get_concrete_function(*args).graph)
    assert str(tg.parse_graph(text)) == text


def layers_in_pieces(x, n, layer):
    total, begin = 0, 0
    for end in range(2, 6):
        y = layer(x[:, begin:end])
        total = total + y.reshape(y.shape[0], -1, 2).sum() + torch.einsum("bij->j", y).sum()
        begin = end
        if total > n:
            break
    return total, begin


def test_layers_of_open_sizes_under_inference_mode():
    layer, x = torch.nn.Linear(4, 6, bias=False), torch.rand(2, 6, 4)
    staged = tg.function(torch.inference_mode()(functools.partial(layers_in_pieces, layer=layer)))
    for n in (-100.0, 100.0):
        for a, b in zip(
            staged(x, torch.tensor(n)), layers_in_pieces(x, torch.tensor(n), layer), strict=True
        ):
            torch.testing.assert_close(a, b, check_device=False)


def test_what_remains_for_a_dimension_of_a_view():
    def f(x, n):
        y = x[: int(n)]
        return y.view(y.shape[0], -1, 2) + 1

    staged, x = tg.function(f), torch.rand(3, 4)
    for n in (2, 3, 1):
        torch.testing.assert_close(staged(x, torch.tensor(n)), f(x, n))
    assert "f32[?,2,2] = aten.view" in str(staged.concrete_functions[0].graph)
    with pytest.raises(RuntimeError, match="ambiguous"):
        staged(x, torch.tensor(0))


@pytest.mark.parametrize("of", [torch.nonzero, torch.argwhere])
def test_the_indices_of_elements_lie_one_dim_behind_the_other(of):
    def f(x):
        found = of(x > 0)
        return found, found.contiguous(), found * 2, torch.where(x > 0)[1], found[:, 0]

    g = tg.function(f)
    for x in (torch.tensor([[1.0, -1, 2], [3, 0, 4]]), torch.zeros(2, 3), torch.eye(3)[:2]):
        for a, b in zip(g(x), f(x), strict=True):
            assert torch.equal(a, b) and (a.stride() == b.stride() or not len(b))
