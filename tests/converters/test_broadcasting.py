"""Sizes that only the run knows in ``torch.broadcast_shapes``, and the distributions that ask for it."""

import pytest
import torch
import torch.distributions as D

import tograph as tg


def _same(f, *calls):
    """Each call gives what it gives eagerly, errors included, by one trace."""
    g = tg.function(f)
    for args in calls:
        try:
            expected = f(*args)
        except RuntimeError as error:
            with pytest.raises(RuntimeError) as found:
                g(*args)
            assert str(found.value).startswith(str(error))
        else:
            torch.testing.assert_close(g(*args), expected)
    assert g.trace_count == 1


SIZES = [(2, 2), (1, 2), (2, 3), (3, 1), (0, 1)]


def test_two_sizes():
    def f(x, n, m):
        found = torch.broadcast_shapes(x[:n].shape, (x[:m].size(0), 1), ())
        assert type(found) is torch.Size
        return found, x.new_ones(torch.Size([2]) + found)

    _same(f, *[(torch.zeros(5), torch.tensor(n), torch.tensor(m)) for n, m in SIZES])


def test_beside_known_sizes():
    def f(x, n):
        size = x[:n].size(0)
        return torch.broadcast_shapes((size, 4), (3, 1, 4), 4), torch.broadcast_shapes(size, (3,))

    _same(f, *[(torch.zeros(5), torch.tensor(n)) for n in (3, 1, 2)])


@pytest.mark.parametrize("kind", [D.Weibull, D.Gumbel, D.Pareto])
def test_transformed_distributions(kind):
    def f(a, b, n):
        found = kind(a[:n], b[:n])
        torch.manual_seed(0)
        drawn = found.sample()
        return drawn, found.log_prob(drawn), found.mean

    a = torch.linspace(1.5, 2.5, 5)
    _same(f, *[(a, a.flip(0), torch.tensor(n)) for n in (3, 5)])
