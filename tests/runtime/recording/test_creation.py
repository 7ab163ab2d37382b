"""Variables, modules and optimisers that a function makes on its first call."""

import gc
import weakref

import pytest
import torch

import tograph as tg

ONE = torch.tensor(1.0)


class Box:
    w = None


def lazily(initial):
    def f(box, x):
        if box.w is None:
            box.w = tg.Variable(initial() if callable(initial) else initial)
        box.w.assign_add(x)
        return box.w.read_value()

    return f


@pytest.mark.parametrize("initial", [1.0, torch.ones(2), lambda: torch.ones(2) * 3, [1.0, 2.0]])
def test_made_once_and_traced_once(initial):
    f = lazily(initial)
    g, one, two = tg.function(f), Box(), Box()
    for _ in range(3):
        assert torch.equal(g(two, ONE), f(one, ONE))
    assert g.trace_count == 1
    assert isinstance(two.w, tg.Variable)
    other = Box()
    g(other, ONE)
    assert other.w is not two.w


def test_made_again_when_it_was_taken_away():
    g, box = tg.function(lazily(1.0)), Box()
    assert [g(box, ONE).item() for _ in range(2)] == [2, 3]
    box.w = None
    assert [g(box, ONE).item() for _ in range(2)] == [2, 3]


def test_initial_value_from_an_argument_and_from_the_generator():
    box = Box()

    @tg.function
    def f(x):
        if box.w is None:
            box.w = tg.Variable(x * 2 + torch.rand(2))
        return box.w * x

    torch.manual_seed(3)
    one, two, draw = f(ONE), f(ONE), torch.rand(1)
    torch.manual_seed(3)
    wanted = ONE * 2 + torch.rand(2)
    assert torch.equal(one, wanted) and torch.equal(two, wanted)
    assert torch.equal(draw, torch.rand(1))


def test_other_effects_of_the_creating_branch_happen_once(capsys):
    box = Box()

    @tg.function
    def f(x):
        first = False
        if box.w is None:
            box.w = tg.Variable(1.0)
            first = True
            print("building")
        return x * box.w, first

    assert [f(ONE)[1] for _ in range(3)] == [True, False, False]
    assert capsys.readouterr().out == "building\n"


def test_a_flag_and_a_dict():
    class Layer:
        built = False

    layer, table = Layer(), {}

    @tg.function
    def f(x):
        if not layer.built:
            layer.w = tg.Variable(2.0)
            layer.built = True
        if "b" not in table:
            table["b"] = tg.Variable(1.0)
        return x * layer.w + table["b"]

    assert [f(ONE).item() for _ in range(2)] == [3, 3]
    assert f.trace_count == 1 and layer.built


def test_a_layer_and_an_optimizer_made_inside():
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = None

        def forward(self, x):
            if self.layer is None:
                self.layer = torch.nn.Linear(x.shape[-1], 2)
            return self.layer(x)

    outs = []
    for wrap in (lambda f: f, tg.function):
        torch.manual_seed(0)
        net = Net()
        f = wrap(lambda x, net=net: net(x))
        outs.append([f(torch.ones(3)).detach() for _ in range(2)])
        assert len(list(net.parameters())) == 2
    torch.testing.assert_close(*outs)


def test_a_loss_made_on_a_condition_of_python():
    def plain(x, target=None):
        if target is not None:
            loss = torch.nn.CrossEntropyLoss()
            return loss(x, target)
        return x

    f = tg.function(plain)
    x, target = torch.rand(3, 4), torch.tensor([0, 3, 1])
    for _ in range(2):
        torch.testing.assert_close(f(x, target), plain(x, target))
    assert f.trace_count == 1


def on_every_call(x):
    return x + tg.Variable(1.0)


def kept_but_on_every_call(x, box=Box()):  # noqa: B008
    box.w = tg.Variable(1.0)
    return x + box.w


def not_kept(x, box=Box()):  # noqa: B008
    if box.w is None:
        v = tg.Variable(1.0)
    return x + v


@pytest.mark.parametrize("f", [on_every_call, kept_but_on_every_call, not_kept])
def test_on_every_call_is_an_error(f):
    for _ in range(2):
        with pytest.raises(
            ValueError, match="only supports singleton variables created on the first call"
        ):
            tg.function(f)(ONE)


def test_in_a_staged_loop_is_an_error():
    box = Box()

    @tg.function
    def f(n):
        s = 0.0
        for _ in range(n):
            if box.w is None:
                box.w = tg.Variable(1.0)
            s = s + box.w
        return s

    with pytest.raises(tg.errors.CreationError, match="staged branch or loop") as caught:
        f(torch.tensor(2))
    assert caught.value.location is not None
    assert box.w is None


def test_variables_as_arguments():
    def f(v, w):
        v.assign_add(1.0)
        w.assign_sub(10.0)
        return v.read_value() + w

    finals = []
    for g in (f, tg.function(f)):
        a, b = tg.Variable(1.0), tg.Variable(2.0)
        outs = [g(*pair).item() for pair in ((a, b), (b, a), (a, a), (a, b))]
        finals.append((outs, a.item(), b.item()))
    assert finals[0] == finals[1]


def test_the_caller_owns_what_was_made():
    g, box = tg.function(lazily(1.0)), Box()
    g(box, ONE)
    gone = weakref.ref(box.w)
    del box
    gc.collect()
    assert gone() is None


def test_a_dead_resource_is_a_clear_error():
    box = Box()
    box.w = tg.Variable(1.0)
    f = tg.function(lambda box, x: box.w * x)
    concrete = f.get_concrete_function(box, ONE)
    assert concrete(box, ONE) == 1
    box.w = None
    gc.collect()
    with pytest.raises(tg.errors.DeadResourceError, match="does not exist any more"):
        concrete.run([ONE])


def test_an_optimizer_that_is_made_and_stepped_in_one_call():
    def outcome(convert):
        torch.manual_seed(0)
        model, box = torch.nn.Linear(2, 1), {"optimizer": None}

        def f(x):
            if box["optimizer"] is None:
                box["optimizer"] = torch.optim.Adam(model.parameters(), lr=0.1)
            box["optimizer"].zero_grad()
            loss = (model(x) ** 2).sum()
            loss.backward()
            box["optimizer"].step()
            return loss.detach()

        step = convert(f)
        return [step(torch.ones(3, 2) * k).item() for k in (1.0, 2.0, -1.0, 3.0)]

    assert outcome(tg.function) == pytest.approx(outcome(lambda f: f), rel=1e-4)


class Negated(torch.nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return -self.inner(x)


def test_a_branch_wraps_a_module():
    inner = torch.nn.Linear(2, 2)

    def f(x, also):
        layer = inner
        if x.sum() > 0:
            layer = Negated(layer)
            if also is not None:
                layer = Negated(layer)
        return layer(x)

    staged = tg.function(f)
    for x in (torch.ones(2), -torch.ones(2)):
        for also in (None, 1):
            torch.testing.assert_close(staged(x, also), f(x, also))


def test_a_branch_makes_parameters():
    @tg.function
    def f(x, also):
        layer = torch.nn.Identity()
        if x.sum() > 0 and also is not None:
            if also is not None:
                layer = torch.nn.Linear(2, 2)
        return layer(x)

    with pytest.raises(tg.errors.CreationError, match="a Linear is made in a staged branch"):
        f(torch.ones(2), 1)


def test_a_module_of_modules_that_exist_is_made_by_every_call():
    torch.manual_seed(0)
    layers = torch.nn.ModuleList(torch.nn.Linear(2, 2) for _ in range(3))

    def f(x, n, backwards):
        if backwards:
            for layer in layers[::-1]:
                x = layer(x)
        for _ in range(n):
            for layer in layers[:2]:
                x = layer(x).tanh()
        return x

    g = tg.function(f)
    for n in (2, 0, 3):
        for backwards in (True, False):
            got = g(torch.ones(2), torch.tensor(n), backwards)
            torch.testing.assert_close(got, f(torch.ones(2), n, backwards))


def test_a_list_of_another_shape_is_not_assigned():
    w = tg.Variable([1.0, 2.0])
    with pytest.raises(tg.errors.InvalidArgumentError, match=r"shape \(2,\) cannot take .* \(1,\)"):
        w.assign([1.0])
    assert w.assign([3.0, 4.0]).tolist() == [3.0, 4.0]
