"""Bars of tqdm, by a module in its place: a function goes over what they go over, and shows none."""

import sys
import types

import pytest
import torch

import tograph as tg
from tograph.errors import StagingError


class tqdm:
    """A bar that looks at what it is told."""

    def __init__(self, iterable=None, desc=None, total=None):
        self.iterable, self.desc, self.total, self.n = iterable, desc, total, 0

    def __iter__(self):
        for item in self.iterable:
            yield item
            self.update()

    def update(self, n=1):
        self.n += n
        if self.n > 1000:
            self.n = 0

    def set_postfix(self, **shown):
        self.shown = [f"{k}={float(v):.2f}" for k, v in sorted(shown.items())]

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass

    @classmethod
    def write(cls, s, file=None, end="\n"):
        (file or sys.stdout).write(s + end)


def trange(*args, **options):
    return tqdm(range(*args), **options)


@pytest.fixture
def bars(monkeypatch):
    library = types.ModuleType("tqdm.std")
    library.tqdm, library.trange = tqdm, trange
    for x in (tqdm, trange, *(f for f in vars(tqdm).values() if isinstance(f, types.FunctionType))):
        monkeypatch.setattr(x, "__module__", "tqdm.std")
    monkeypatch.setattr(tqdm.write.__func__, "__module__", "tqdm.std")
    monkeypatch.setitem(sys.modules, "tqdm.std", library)


def steps(x, n):
    bar = tqdm(range(int(n)), desc="steps")
    for i in bar:
        x = x * 1.5
        bar.set_postfix(total=x.sum().item(), i=i)
        if x.sum() > 20:
            tqdm.write(f"{i}: {x.sum():.2f}")
            break
    for k, v in enumerate(tqdm(x)):
        if v > n:
            x = x + k
    with tqdm(total=4) as bar:
        while x.sum() < 50:
            x = x + 5
            bar.update(int(x.sum()))
    for i in trange(3):
        if x.sum() > n:
            x = x - i
    return x


def test_loops_over_bars(bars, capsys):
    staged = tg.function(steps)
    for n in (9, 2):
        expected = steps(torch.ones(3), torch.tensor(n))
        wrote = capsys.readouterr().out
        torch.testing.assert_close(staged(torch.ones(3), torch.tensor(n)), expected)
        assert capsys.readouterr().out == wrote
    assert staged.trace_count == 1


def test_what_a_bar_counts_is_refused(bars):
    def f(x):
        bar = tqdm(x)
        for _ in bar:
            pass
        return bar.n

    with pytest.raises(StagingError, match="bar of tqdm"):
        tg.function(f)(torch.ones(3))
