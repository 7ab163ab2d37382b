"""``torch.optim.LBFGS.step`` inside of a function: the iterates, the losses and the state that torch's own step leaves."""

import copy

import pytest
import torch

import tograph as tg
from tograph.runtime.autodiff import dependence

D = torch.float64


def rosenbrock(w):
    return (100 * (w[1:] - w[:-1] ** 2) ** 2 + (1 - w[:-1]) ** 2).sum()


def optimiser(**options):
    w = torch.nn.Parameter(torch.tensor([-1.2, 1.0, 0.5], dtype=D))
    opt = torch.optim.LBFGS([w], max_iter=4, **options)

    def step(x):
        def closure():
            opt.zero_grad()
            loss = rosenbrock(w * x)
            loss.backward()
            return loss

        return opt.step(closure)

    return w, opt, step


def same_state(one, other):
    assert one.keys() == other.keys()
    for key, x in one.items():
        y = other[key]
        if isinstance(x, list) and key != "al":
            assert len(x) == len(y)
            for a, b in zip(x, y):
                torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-8)
        elif key != "al":
            a, b = (torch.as_tensor(v, dtype=D) for v in (x, y))
            torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize(
    "options",
    [{"lr": 0.3, "history_size": 2}, {"line_search_fn": "strong_wolfe", "history_size": 3}],
    ids=["fixed", "wolfe"],
)
def test_steps_inside_and_outside_of_a_graph(options):
    """One trace serves all steps, also after one that torch itself made, until groups are loaded, and is native code."""
    (w, opt, plain), (v, mine, step) = optimiser(**options), optimiser(**options)
    f, x = tg.function(step), torch.tensor(1.0, dtype=D)
    for i in range(3 if "line_search_fn" in options else 6):  # of a search one long trace
        inside = i != 3
        torch.testing.assert_close((f if inside else step)(x), plain(x), rtol=1e-6, atol=1e-8)
        torch.testing.assert_close(v, w, rtol=1e-6, atol=1e-8)
        same_state(opt.state_dict()["state"][0], mine.state_dict()["state"][0])
        assert f.trace_count == 1 + (i == 5)
        if i == 4:
            mine.load_state_dict(copy.deepcopy(mine.state_dict()))
    assert "While" in str(f.concrete_functions[0].graph)
    assert f.concrete_functions[0].scheduled.level == "native"


def test_steps_before_a_failure_are_in_the_state():
    w, opt, step = optimiser(lr=0.1)
    fitting, x = torch.tensor([2, 3]), torch.tensor(1.0, dtype=D)

    @tg.function
    def f(x, n, data):
        loss = step(x)
        for i in range(n):
            assert data[i] < 3
            loss = step(x)
        return loss

    f(x, torch.tensor(2), fitting - 1)
    assert opt.state_dict()["state"][0]["n_iter"] == 12
    with pytest.raises(AssertionError):
        f(x, torch.tensor(2), fitting)
    state = opt.state_dict()["state"][0]
    assert state["n_iter"] == 20 and len(state["old_dirs"]) == 19
    f(x, torch.tensor(0), fitting)
    assert opt.state_dict()["state"][0]["n_iter"] == 24 and f.trace_count == 1


def test_a_state_with_more_directions_than_there_is_room_for():
    w, opt, step = optimiser(lr=0.1, history_size=2)
    f, x = tg.function(step), torch.tensor(1.0, dtype=D)
    f(x)
    v, other, plain = optimiser(lr=0.1, history_size=5)
    for _ in range(2):
        plain(x)
    opt.load_state_dict(copy.deepcopy(other.state_dict()))
    with torch.no_grad():
        w.copy_(v)
    torch.testing.assert_close(f(x), plain(x))
    same_state(opt.state_dict()["state"][0], other.state_dict()["state"][0])


def test_a_minimum_ends_the_step():
    w, opt, step = optimiser()
    with torch.no_grad():
        w.fill_(1)
    x = torch.tensor(1.0, dtype=D)
    assert tg.function(step)(x) == 0 and (w == 1).all()
    assert opt.state_dict()["state"][0] == {"func_evals": 1, "n_iter": 0}


def test_a_step_in_a_branch():
    w, opt, step = optimiser(lr=0.1)

    @tg.function
    def f(x, go):
        if go > 0:
            loss = step(x)
        else:
            loss = x * 0
        return loss

    x = torch.tensor(1.0, dtype=D)
    before = w.detach().clone()
    assert f(x, torch.tensor(0)) == 0 and (w == before).all() and not opt.state
    assert f(x, torch.tensor(1)) > 0 and (w != before).any() and f.trace_count == 1
    assert opt.state_dict()["state"][0]["n_iter"] == 4


def of_a_tensor(x, y, n):
    w = torch.zeros(3, 1, dtype=x.dtype, requires_grad=True)
    optimizer = torch.optim.LBFGS([w], max_iter=3, history_size=2)

    def closure():
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(x @ w, y)
        loss.backward()
        return loss

    loss = torch.zeros((), dtype=x.dtype)
    for _ in range(n):
        loss = optimizer.step(closure)
    return w.detach(), loss.detach()


def test_an_optimiser_that_each_call_makes():
    """Its directions begin anew in each call, over a tensor that is made inside."""
    staged = tg.function(of_a_tensor)
    for seed, n in ((0, 2), (1, 3), (2, 0)):
        torch.manual_seed(seed)
        x, y = torch.randn(6, 3, dtype=torch.float64), torch.randn(6, 1, dtype=torch.float64)
        native = of_a_tensor(x, y, torch.tensor(n))
        torch.testing.assert_close(native, staged(x, y, torch.tensor(n)))
    assert staged.trace_count == 1


def test_an_optimiser_that_each_call_makes_over_parameters_from_outside():
    seen = []
    for decorator in (lambda f: f, tg.function):
        torch.manual_seed(0)
        net = torch.nn.Linear(3, 1, dtype=torch.float64)

        @decorator
        def fitted(x, y):
            optimizer = torch.optim.LBFGS(net.parameters(), max_iter=3, history_size=2)

            def closure():
                optimizer.zero_grad()
                loss = torch.nn.functional.mse_loss(net(x), y)
                loss.backward()
                return loss

            optimizer.step(closure)
            return optimizer.step(closure).detach()

        for _ in range(3):
            x, y = torch.randn(6, 3, dtype=torch.float64), torch.randn(6, 1, dtype=torch.float64)
            seen.append((fitted(x, y), net.weight.detach().clone()))
    for native, staged in zip(seen[:3], seen[3:]):
        torch.testing.assert_close(native, staged)


def fitted(x, y):
    torch.manual_seed(0)
    layers = torch.nn.Linear(2, 2, dtype=D), torch.nn.Tanh(), torch.nn.Linear(2, 1, dtype=D)
    model = torch.nn.Sequential(*layers)
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=3)

    def closure():
        optimizer.zero_grad()
        loss = (model(x)[:, 0] - y).square().mean()
        loss.backward()
        return loss

    for _ in range(2):
        loss = optimizer.step(closure)
    return loss.detach()


def test_a_module_that_is_made_inside_is_traced_with_little_work(monkeypatch):
    found, plain = [0], dependence.output_dependences

    def counted(*args):
        found[0] += 1
        assert found[0] < 50_000
        return plain(*args)

    monkeypatch.setattr(dependence, "output_dependences", counted)
    x, y = torch.tensor([[1.0, 2.0], [0.5, -1.0]], dtype=D), torch.tensor([1.0, -1.0], dtype=D)
    torch.testing.assert_close(tg.function(fitted)(x, y), fitted(x, y))
