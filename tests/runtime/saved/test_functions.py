"""tg.save and tg.load of functions: values, effects, gradients, signatures, and what cannot be saved."""

import collections
import copy
import dataclasses
import pickle

import pytest
import torch

import tograph as tg
from tograph.errors import UnsavableError, UnsavedSignatureError


@pytest.fixture
def again(tmp_path):
    """Saves something and loads it back."""

    def save_and_load(x):
        tg.save(x, tmp_path / "x.tograph")
        return tg.load(tmp_path / "x.tograph")

    return save_and_load


@tg.function
def root(x):
    """Newton's square root."""
    y = x
    while (y * y - x).abs() > 1e-6:
        y = (y + x / y) / 2
    return y


def test_loaded_function_runs_and_differentiates(again):
    root(torch.tensor(2.0))
    g = again(root)
    x = torch.tensor(9.0, requires_grad=True)
    y = g(x)
    (dx,) = torch.autograd.grad(y, x, create_graph=True)
    (ddx,) = torch.autograd.grad(dx, x)
    torch.testing.assert_close(y.item(), 3.0, rtol=1e-5, atol=0)
    torch.testing.assert_close(dx.item(), 1 / 6, rtol=1e-4, atol=0)
    torch.testing.assert_close(ddx.item(), -1 / 108, rtol=1e-3, atol=0)
    assert g.__doc__ == "Newton's square root." and g.__name__ == "root" and g.trace_count == 0


def test_all_traces_are_saved(again):
    @tg.function
    def f(x, n=2, mode="a"):
        return x * n if mode == "a" else x - n

    cases = [((torch.ones(2),), {}), ((torch.ones(3, dtype=torch.float64), 3), {}), ((torch.ones(2),), {"mode": "b"})]  # fmt: skip
    expected = [f(*a, **k) for a, k in cases]
    g = again(f)
    assert len(g.concrete_functions) == 3
    for (a, k), e in zip(cases, expected):
        assert torch.equal(g(*a, **k), e) and g(*a, **k).dtype == e.dtype


def test_unsaved_signature_says_which_exist(again):
    @tg.function
    def f(x, n, items=()):
        return x * n

    f(torch.ones(2, 3), 2)
    f(torch.ones(2, dtype=torch.int32), 2.5, [torch.ones(1), None])
    g = again(f)
    with pytest.raises(UnsavedSignatureError) as caught:
        g(torch.ones(4), 2)
    assert isinstance(caught.value, (TypeError, ValueError))
    text = str(caught.value)
    assert "Could not find matching concrete function of 'f' for (x: float32[4], n: 2, items: ())" in text  # fmt: skip
    assert "x: float32[2, 3], n: 2, items: ()" in text
    assert "x: int32[2], n: 2.5, items: [float32[1], None]" in text
    with pytest.raises(tg.errors.SignatureError, match="missing a required argument: 'n'"):
        g(torch.ones(4))


def test_open_dimensions(again):
    @tg.function(input_signature=[tg.TensorSpec([None, 2], torch.float32)])
    def f(x):
        return x.sum(0) / x.shape[0]

    g = again(f)  # never called: its signature is enough
    for n in (1, 2, 7):
        assert g(torch.ones(n, 2)).tolist() == [1.0, 1.0]
    with pytest.raises(tg.errors.SignatureError):
        g(torch.ones(3, 3))


def test_exact_sizes_before_open_ones(again):
    @tg.function
    def f(x):
        return x + (10 if isinstance(x.shape[0], int) and type(x.shape[0]) is int else 20)

    f.get_concrete_function(tg.TensorSpec([None], torch.float32))
    f(torch.zeros(3))
    g = again(f)
    assert len(g.concrete_functions) == len(f.concrete_functions)
    assert torch.equal(g(torch.zeros(3)), f(torch.zeros(3)))
    assert g(torch.zeros(5)).shape == (5,)


def test_size_guards_are_kept(again):
    @tg.function
    def f(x):
        if x.shape[0] > 3:
            return x.sum()
        return x.prod()

    f.get_concrete_function(tg.TensorSpec([None], torch.float32))
    g = again(f)
    for n in (2, 5):
        x = torch.full((n,), 3.0)
        assert g(x).item() == f.python_function(x).item()


def test_functions_of_one_file_share_variables(again):
    v = tg.Variable(1.0)

    @tg.function
    def add(x):
        v.assign_add(x)
        return v.read_value()

    @tg.function
    def get():
        return v.read_value()

    add(torch.tensor(2.0))
    get()
    g = again({"add": add, "get": get, "v": v})
    assert g["add"](torch.tensor(4.0)).item() == 7.0
    assert g["get"]().item() == 7.0 and g["v"].item() == 7.0 and v.item() == 3.0
    assert isinstance(g["v"], tg.Variable) and g["add"].variables == [g["v"]]


def test_training_goes_on(again):
    weight = torch.nn.Parameter(torch.zeros(2))

    @tg.function
    def loss(x, y):
        p = x @ weight
        for _ in tg.range(torch.tensor(1)):
            p = p * 1.0
        return ((p - y) ** 2).mean()

    x, y = torch.eye(2), torch.tensor([1.0, 2.0])

    def train(f, parameters, steps):
        optimiser = torch.optim.SGD(parameters, lr=0.5)
        for _ in range(steps):
            optimiser.zero_grad()
            f(x, y).backward()
            optimiser.step()

    train(loss, [weight], 3)
    g = again(loss)
    train(loss, [weight], 5)
    train(g, g.parameters(), 5)
    assert torch.equal(g.parameters()[0], weight) and g.parameters()[0] is not weight
    assert isinstance(g.parameters()[0], torch.nn.Parameter)


def test_tensors_that_share_memory_share_it_again(again):
    base = torch.zeros(4)
    head, tail = base[:2], base[2:]

    @tg.function
    def f(x):
        base.add_(x)
        return head + tail

    f(torch.tensor(1.0))
    g = again([f, head, tail])
    function, new_head, _ = g
    before = new_head.clone()
    function(torch.tensor(1.0))
    assert torch.equal(new_head, before + 1)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.complex64, torch.complex128, torch.uint16, torch.bool, torch.int8, torch.float8_e4m3fn])  # fmt: skip
def test_dtypes_and_strides(again, dtype):
    kept = torch.arange(6).reshape(2, 3).to(dtype).t()

    @tg.function
    def f(x):
        return x, kept

    f(torch.zeros(1))
    got = again(f)(torch.zeros(1))[1]
    assert got.dtype == dtype and got.stride() == kept.stride()
    assert got.view(torch.uint8).tolist() == kept.view(torch.uint8).tolist() if dtype.itemsize == 1 else torch.equal(got, kept)  # fmt: skip


Pair = collections.namedtuple("Pair", "left right")


@dataclasses.dataclass
class Box:
    content: object
    label: str = ""


def test_structures(again):
    @tg.function
    def f(x, p):
        found = None
        if x.sum() > 0:
            found = x
        return Pair(Box(x + p.left, "sum"), {"k": [p.right, 1.5, "s", (None, float("nan"))], "f": found})  # fmt: skip

    p = Pair(torch.ones(2), 3)
    f(torch.ones(2), p)
    g = again(f)
    for sign in (1, -1):
        native, loaded = f.python_function(sign * torch.ones(2), p), g(sign * torch.ones(2), p)
        assert type(loaded) is Pair and type(loaded.left) is Box
        assert torch.equal(native.left.content, loaded.left.content)
        assert repr(native.right) == repr(loaded.right)


def test_classes_of_absent_modules_get_a_stand_in(again):
    cls = collections.namedtuple("Gone", "a b")
    cls.__module__ = "no_such_module"

    @tg.function
    def f(x):
        return cls(x, x + 1)

    f(torch.zeros(1))
    got = again(f)(torch.zeros(1))
    assert type(got).__name__ == "Gone" and got._fields == ("a", "b") and got.b.item() == 1


def test_effects(again, capsys):
    @tg.function
    def f(x, log):
        while x < 3:
            log.append(x)
            x = x + 1
            print("x is", x)
        try:
            if x > 5:
                raise KeyError("big")
        except KeyError as e:
            print("caught", e)
        assert x < 50, f"x = {x}"
        return x

    f(torch.tensor(0), [])
    g = again(f)
    for start in (1, 7):
        capsys.readouterr()
        first, second = [], []
        native = f.python_function(torch.tensor(start), first), capsys.readouterr().out
        loaded = g(torch.tensor(start), second), capsys.readouterr().out
        assert native == loaded and first == second
    with pytest.raises(AssertionError, match="x = 99"):
        g(torch.tensor(99), [])


def test_random_numbers(again):
    @tg.function
    def f(x):
        if x > 0:
            return torch.randn(3) + x
        return torch.rand(3)

    f(torch.tensor(1.0))
    g = again(f)
    torch.manual_seed(3)
    native = f.python_function(torch.tensor(1.0))
    torch.manual_seed(3)
    assert torch.equal(g(torch.tensor(1.0)), native)


def test_loaded_inside_another_function(again):
    v = tg.Variable(0.0)

    @tg.function
    def inner(x):
        v.assign_add(1.0)
        while x < 10:
            x = x * 2
        return x

    inner(torch.tensor(1.0))
    g = again({"f": inner, "v": v})

    @tg.function
    def outer(x):
        if x > 0:
            return g["f"](x) + g["v"]
        return x

    assert outer(torch.tensor(3.0)).item() == 12 + 2 and g["v"].item() == 2
    assert outer(torch.tensor(-3.0)).item() == -3 and g["v"].item() == 2


def test_gradient_through_a_loaded_function_inside_another(again):
    root(torch.tensor(2.0))
    g = again(root)

    @tg.function
    def slope(x):
        y = g(x) * x
        return torch.autograd.grad(y, x)[0]

    x = torch.tensor(4.0, requires_grad=True)
    assert abs(slope(x).item() - 3.0) < 1e-3


def test_deepcopy_has_tensors_of_its_own(again):
    v = tg.Variable(0.0)

    @tg.function
    def f():
        v.assign_add(1.0)
        return v.read_value()

    f()
    g = again(f)
    h = copy.deepcopy(g)
    assert h().item() == 2 and h().item() == 3 and g().item() == 2
    with pytest.raises(UnsavableError, match="cannot be pickled"):
        pickle.dumps(g)


# ---- what cannot be saved


class Custom(Exception):
    pass


def test_custom_exception_names_the_line(tmp_path):
    @tg.function
    def f(x):
        if x > 0:
            raise Custom("here")
        return x

    f(torch.tensor(-1.0))
    with pytest.raises(UnsavableError, match=r"(?s)class Custom.*test_functions.py.*raise Custom\(\"here\"\)"):  # fmt: skip
        tg.save(f, tmp_path / "f")


def test_py_function_names_the_line(tmp_path):
    @tg.function
    def f(x):
        return tg.py_function(abs, [x], tg.TensorSpec([], torch.float32))

    f(torch.tensor(-1.0))
    with pytest.raises(UnsavableError, match=r"(?s)tg.py_function calls Python code.*return tg.py_function\(abs"):  # fmt: skip
        tg.save(f, tmp_path / "f")


def test_object_argument(tmp_path):
    class Options:
        factor = 2

    @tg.function
    def f(x, options):
        return x * options.factor

    f(torch.ones(1), Options())
    with pytest.raises(UnsavableError, match="argument 'options' of 'f' is an object of Options"):
        tg.save(f, tmp_path / "f")


def test_python_state_outside(tmp_path):
    class Counter:
        count = 0

    counter = Counter()

    @tg.function
    def f(x):
        counter.count = x + 1
        return x

    f(torch.tensor(1))
    with pytest.raises(
        UnsavableError, match=r"'f' writes Counter.count, a Python variable outside"
    ):
        tg.save(f, tmp_path / "f")


def test_a_tensor_of_an_attribute_that_is_added_to(tmp_path):
    """``+=`` leaves the tensor in the attribute, as ``add_`` does; another tensor in it is refused, and the message tells."""

    class Counter(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("steps", torch.tensor(0))

    counter = Counter()

    @tg.function
    def assigned(x):
        counter.steps = counter.steps + 1
        return x * counter.steps

    @tg.function
    def added(x):
        counter.steps += 1
        return x * counter.steps

    x = torch.tensor(2)
    assert assigned(x) == 2 and added(x) == 4
    with pytest.raises(UnsavableError, match=r"Counter.steps.*add_\(1\)` does not"):
        tg.save(assigned, tmp_path / "f")
    tg.save(added, tmp_path / "f")
    loaded = tg.load(tmp_path / "f")
    assert loaded(x) == 6 and loaded(x) == 8 and counter.steps == 2


def test_never_called(tmp_path):
    @tg.function
    def f(x):
        return x

    with pytest.raises(UnsavableError, match="'f' has no trace that holds now: call it"):
        tg.save(f, tmp_path / "f")
    with pytest.raises(UnsavableError, match=r"takes a tg.function, a torch.nn.Module"):
        tg.save(lambda x: x, tmp_path / "f")
    with pytest.raises(UnsavableError, match=r"there is no tg.function in it"):
        tg.save(torch.nn.Linear(2, 2), tmp_path / "f")


def test_sparse_capture(tmp_path):
    eye = torch.eye(2).to_sparse()

    @tg.function
    def f(x):
        return eye @ x

    f(torch.ones(2))
    with pytest.raises(UnsavableError, match="torch.sparse_coo, which a saved file cannot hold"):
        tg.save(f, tmp_path / "f")


def test_a_step_of_training_inside(again):
    weight = torch.nn.Parameter(torch.zeros(2))

    @tg.function
    def step(x, y):
        loss = ((x @ weight - y) ** 2).mean()
        weight.grad = None
        loss.backward()
        with torch.no_grad():
            weight.sub_(0.5 * weight.grad)
        return loss

    x, y = torch.eye(2), torch.tensor([1.0, 2.0])
    step(x, y)
    g = again(step)
    for f, p in ((step, weight), (g, g.parameters()[0])):
        for _ in range(4):
            f(x, y)
    assert torch.equal(g.parameters()[0], weight)
    assert torch.equal(g.parameters()[0].grad, weight.grad)


def enabled(x):
    y = x * 3
    with torch.enable_grad():
        z = y * x
    return y, z, x * 5


def test_a_function_that_turns_gradients_on(again):
    x, f = torch.ones(2, requires_grad=True), tg.function(enabled)
    f(x)
    with torch.no_grad():
        f(x)
    g = again(f)
    nested = tg.function(lambda x: g(x))
    inside = tg.function(lambda x: torch.no_grad()(g)(x))
    for h in (g, copy.deepcopy(g), nested):
        assert [y.requires_grad for y in h(x)] == [True, True, True]
        with torch.no_grad():
            assert [y.requires_grad for y in h(x)] == [False, True, False]
    assert [y.requires_grad for y in inside(x)] == [False, True, False]
    only = tg.function(enabled)
    only(x)
    only = again(only)
    with torch.no_grad(), pytest.raises(UnsavedSignatureError, match="called with gradients on"):
        only(x)


def test_an_argument_that_is_made_a_leaf(again):
    f, x = tg.function(lambda x: x.requires_grad_() * 2), torch.ones(2)
    f(x.clone())
    assert again(f)(x).requires_grad and x.requires_grad


def test_what_a_trace_asks_of_gradients_is_kept(tmp_path):
    def slope(x, n):
        y = x
        for _ in range(n):
            y = y * x
        return torch.autograd.grad(y.sum(), x)

    def asked(x, n):
        return x * n if x.requires_grad else -x

    n = torch.tensor(2)
    for f, given in ((slope, True), (asked, True), (asked, False)):
        staged = tg.function(f)
        staged(torch.ones(2, requires_grad=given), n)
        tg.save(staged, tmp_path / "saved")
        loaded = tg.load(tmp_path / "saved")
        x = torch.tensor([2.0, 3.0], requires_grad=given)
        torch.testing.assert_close(loaded(x, n), f(x, n))
        with pytest.raises(UnsavedSignatureError, match="where tensor 0 (is a|requires)"):
            loaded(torch.ones(2, requires_grad=not given), n)


def test_results_of_ops_with_several_results(tmp_path):
    f = tg.function(lambda x: (x.sort(), x.topk(2)))
    x = torch.tensor([3.0, 1.0, 2.0])
    f(x)
    tg.save(f, tmp_path / "saved")
    found = tg.load(tmp_path / "saved")(x)
    assert [type(r) for r in found] == [torch.return_types.sort, torch.return_types.topk]
    torch.testing.assert_close(found, f(x))
