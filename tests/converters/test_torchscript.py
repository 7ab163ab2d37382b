"""Code of TorchScript inside of functions: its ops, its gradients, what it reads and what it writes."""

import warnings

import pytest
import torch

import tograph as tg

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    script, trace = torch.jit.script, torch.jit.trace


class Scaled(torch.nn.Module):
    n: int

    def __init__(self):
        super().__init__()
        self.w, self.n, self.k = torch.nn.Parameter(torch.ones(4)), 3, [1.0, 2.0]
        self.inner = torch.nn.Dropout(1.0)

    def forward(self, x, shift: float = 0.5):
        return self.inner(torch.exp(torch.sin(x * self.w)) * self.n + self.k[0]) + shift

    @torch.jit.export
    def twice(self, x):
        return torch.exp(x * self.w) * 2


class Counting(torch.nn.Module):
    n: int

    def __init__(self):
        super().__init__()
        self.n, self.h = 3, torch.zeros(2)

    def forward(self, x):
        self.n += 1
        return x * self.n


class Replacing(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.h = torch.zeros(2)

    def forward(self, x):
        self.h = self.h + x
        return self.h


class Asking(torch.nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            return x
        return -x


X = torch.linspace(0.5, 1.5, 4)


def scaled():
    m = script(Scaled()).eval()
    for _ in range(4):  # torch has specialised it, with gradients in one node
        m(X).sum().backward()
        m.twice(X).sum().backward()
    m.w.grad = None
    return m


@pytest.mark.parametrize(
    "use",
    [lambda m, x: m(x), lambda m, x: m(x, shift=1.0), lambda m, x: m.twice(x), lambda m, x: m.forward(x, 2.0)],
)  # fmt: skip
def test_values_and_gradients(use):
    m, plain = scaled(), Scaled().eval()

    @tg.function
    def f(x):
        if x.sum() > 0:
            return use(m, x)
        return x

    torch.testing.assert_close(f(X), use(plain, X))
    f(X).sum().backward()
    use(plain, X).sum().backward()
    torch.testing.assert_close(m.w.grad, plain.w.grad)


def test_traced_and_loaded(tmp_path):
    plain = torch.nn.Linear(4, 2)
    trace(plain, X).save(tmp_path / "m.pt")
    for m in (trace(plain, X), torch.jit.load(tmp_path / "m.pt"), trace(plain.forward, X)):
        torch.testing.assert_close(tg.function(lambda x, m=m: m(x) * 1)(X), plain(X))
        torch.testing.assert_close(tg.function(m)(X), plain(X))


def test_what_it_reads_is_guarded():
    m = scaled()
    f = tg.function(lambda x: m(x) + 1)

    def check(traces):
        torch.testing.assert_close(f(X), m(X) + 1)
        assert f.trace_count == traces

    check(1)
    check(1)
    m.n = 4
    check(2)
    m.k = [5.0]
    check(3)
    m.inner.train()
    check(4)
    with torch.no_grad():
        m.w.fill_(2.0)
    check(4)


@pytest.mark.parametrize(("made", "name"), [(Counting, "n"), (Replacing, "h")])
def test_what_it_sets_is_refused(made, name):
    m = script(made())
    before = getattr(m, name)
    with pytest.raises(tg.errors.StagingError, match=f"sets the attribute '{name}'"):
        tg.function(lambda x: m(x))(torch.ones(2))
    assert getattr(m, name) is before or getattr(m, name) == before


def test_a_condition_in_it_is_refused():
    m = script(Asking())
    with pytest.raises(tg.errors.GraphBoolError, match="not converted. Call what was given to torch.jit.script") as caught:  # fmt: skip
        tg.function(lambda x: m(x) + 1)(X)
    assert __file__ in str(caught.value)


def test_wrong_arguments():
    m = scaled()
    with pytest.raises(RuntimeError, match="Unknown keyword argument 'y'"):
        tg.function(lambda x: m(x, y=1))(X)
    with pytest.raises(RuntimeError, match="missing value for argument 'x'"):
        tg.function(lambda x: m())(X)


def test_a_function_is_not_scripted():
    f = tg.function(Asking.forward)
    with pytest.raises(RuntimeError, match=r"give it forward\.python_function"):
        script(f)
