"""A staged ``try`` catches what torch raises where sizes that only the run knows do not fit."""

import contextlib

import pytest
import torch

import tograph as tg
from tograph.runtime.graph.text import parse_graph, show

X, Y = torch.arange(12.0).view(3, 4), torch.ones(3, 4)


def product(n):
    try:
        return X[:, :n] @ Y
    except RuntimeError:
        return Y * 2


def joined(n):
    try:
        z = torch.cat([X[:, :n], Y])
    except RuntimeError:
        z = Y * 2
    return z + 1


def unused(n):
    """What nobody reads fails too."""
    try:
        torch.zeros(n - 2)
        X[:n] + Y
    except RuntimeError:
        return False
    return True


def viewed(n):
    try:
        return X[:n].view(2, -1)
    except RuntimeError as error:
        return str(error)


def progress(n):
    """A handler finds the variables as they were where it failed."""
    z, count = Y, 0
    try:
        z = z + 1
        count = count + n
        z = X[:n] + z
        count = count + 100
        z = z @ X[: n + 1]
        count = count + 100
    except (RuntimeError, ValueError):
        return z, count
    finally:
        print("done")
    return z * 2, count


def in_place(n):
    z = Y.clone()
    try:
        z.add_(1)
        z += X[:n]
        z.mul_(3)
    except RuntimeError:
        z.sub_(7)
    return z


def suppressed(n):
    z = Y
    with contextlib.suppress(RuntimeError):
        z = z + 1
        z = torch.stack([X[0], z[0, :n]])
    return z


def iterations(n):
    total, failed = torch.zeros(3, 4), 0
    for i in range(n):
        try:
            total = total + X[: i + 1]
        except RuntimeError:
            failed = failed + 1
    return total, failed


PROGRAMS = [product, joined, unused, viewed, progress, in_place, suppressed, iterations]


@pytest.mark.parametrize("f", PROGRAMS)
def test_caught(f, capsys):
    def of_tensor(n):
        return f(int(n))

    g = tg.function(of_tensor)
    for n in (3, 2, 4, 1, 0, 3):
        expected, said = f(n), capsys.readouterr().out
        for _ in range(2):
            torch.testing.assert_close(g(torch.tensor(n)), expected, rtol=0, atol=0)
            assert capsys.readouterr().out == said
    assert g.trace_count == 1


def test_what_is_written_before_it_fails_stays():
    class Counter:
        n = 0

    counter = Counter()

    @tg.function
    def f(n):
        counter.n = n * 10
        z = X[: int(n)] + Y
        counter.n = n * 0
        return z

    f(torch.tensor(3))
    with pytest.raises(RuntimeError, match="must match"):
        f(torch.tensor(2))
    assert counter.n == 20


def test_sizes_that_are_known_to_fit_make_no_region():
    @tg.function(input_signature=[tg.TensorSpec([None, 4], torch.float32)])
    def f(x):
        try:
            y = (x * 2 + x) @ torch.ones(4, 4)
            return torch.cat([y, x.view(x.shape[0], 4)], 1).sum(0)
        except RuntimeError:
            return torch.zeros(8)

    f(X)
    text = str(f.concrete_functions[0].graph)
    assert "Try" not in text and "unsure" not in text


def test_text_tells():
    g = tg.function(product_of)
    g(torch.tensor(2))
    text = show(g.concrete_functions[0].graph)
    assert "unsure" in text and show(parse_graph(text)) == text


def product_of(n):
    try:
        return X[:, : int(n)] @ Y
    except RuntimeError:
        return Y.clone()


def halved(w, x):
    w.mul_(0.5)
    w.add_(x)


def nobody_reads(w, x):
    w.mul_(0.5)
    w + x
    w.add_(1)


def in_a_branch(w, x):
    w.mul_(0.5)
    if x.sum() > 0:
        w.add_(1)
        w.add_(x)


def in_a_loop(w, x):
    for _ in range(x[0].long()):
        w[0] = 5
        w[:] = x
        w[1] = 7


def joined_in_between(w, x):
    w.mul_(0.5)
    w.add_(torch.cat([w.view(3, 1), x.view(-1, 1)], 1).sum())


@pytest.mark.parametrize(
    "f", [halved, nobody_reads, in_a_branch, in_a_loop, joined_in_between], ids=lambda f: f.__name__
)
def test_without_a_try_writes_before_it_stay_and_those_after_it_do_not_come(f):
    g = tg.function(f, reduce_retracing=True)
    w, v = torch.ones(3), torch.ones(3)
    for n in (3, 1, 3, 4, 2, 3, 4):
        found = []
        for run, held in ((f, w), (g, v)):
            try:
                run(held, torch.ones(n) * 2)
                found.append(None)
            except RuntimeError as error:
                found.append(str(error))
        assert found[0] == found[1]
        torch.testing.assert_close(v, w, rtol=0, atol=0)
    assert g.trace_count == 2


@pytest.mark.parametrize("n", [5, 2, 0, -1])
def test_expand_to_a_negative_size(n):
    def expanded(n):
        try:
            return X[:, :1].expand(3, n - 1)
        except RuntimeError:
            return "caught"

    def in_front(n):
        try:
            return X[0].expand(n - 1, 4)
        except RuntimeError:
            return "caught"

    for plain in (expanded, in_front):
        staged = tg.function(plain)
        for k in (5, n, n):
            found, expected = staged(torch.tensor(k)), plain(torch.tensor(k))
            assert str(found) == str(expected)
