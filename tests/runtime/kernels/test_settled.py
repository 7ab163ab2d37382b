"""Loops over masked elements whose blocks may end by themselves, by proof; those of which it is not so are left to the check of the kernel."""

import pytest
import torch

from tests.runtime.kernels.loop_programs import all_move, halve_each
from tests.runtime.kernels.test_triton_loops import loop_of
from tograph.bench import programs
from tograph.runtime.kernels import triton_loops
from tograph.runtime.kernels.loop_blocks import independent
from tograph.runtime.kernels.settled import settled


def roots(x, n):
    """The mask is what it was, and more."""
    y, i, active = x, torch.zeros_like(n), x > 0
    while (i < n) & active.any():
        new = 0.5 * (y + x / y)
        active = active & ((new - y).abs() > 1e-6)
        y = torch.where(active, new, y)
        i = i + 1
    return y, i


def escape(
    z, n, active=None, count=None, inside=lambda z: z.abs() < 100, also=lambda active: active
):
    """The mask is computed of what the masked elements end as."""
    active = torch.ones_like(z, dtype=torch.bool) if active is None else active(z)
    i, count = torch.zeros_like(n), torch.zeros_like(z) if count is None else count(z)
    while (i < n) & active.any():
        z = torch.where(also(active), z * z + 0.5, z)
        active = inside(z)
        count = count + active.to(count.dtype)
        i = i + 1
    return z, count, i


def behind(z, n, wide=lambda new: new):
    """The condition asks behind the number."""
    i = torch.zeros_like(n)
    while i < n and (z < 0.7).any():
        new = torch.where(z < 0.7, wide(z) * 2, z)
        z = torch.where(new < 0.7, z + 0.5, z)
        i = i + 1
    return z, i


def of_numbers(z, n):
    """What is chosen while the mask is true is no matter of the proof."""
    i, active = torch.zeros_like(n), torch.ones_like(z, dtype=torch.bool)
    while active.any() and i < n:
        z = torch.where(active, z - i * 0.5, z)
        active = active & (z > 0)
        i = i + 1
    return z, i


def either(z, n, last=lambda z: z):
    """An element whose mask is false is the same on both sides of a choice."""
    i, active = torch.zeros_like(n), torch.ones_like(z, dtype=torch.bool)
    while active.any() and i < n:
        z = torch.where(i % 2 == 0, torch.where(active, z * 0.5, z), torch.where(active, z - 0.25, last(z)))  # fmt: skip
        active = active & (z > 0)
        i = i + 1
    return z, i


def whole(z):
    return torch.zeros_like(z, dtype=torch.int64)


PROVED = {
    "roots": roots,
    "escape": escape,
    "a count of ints": lambda z, n: escape(z, n, count=whole),
    "behind": behind,
    "of numbers": of_numbers,
    "either": either,
}
NOT_PROVED = {
    "a mask that begins as something": lambda z, n: escape(z, n, active=lambda z: z > 3),
    "a mask that is True again": lambda z, n: escape(
        z, n, also=lambda active: active | (active ^ True)
    ),
    "a count that may be -0.0": lambda z, n: escape(z, n, count=lambda z: z * 0),
    "a count that begins as -0.0": lambda z, n: escape(
        z, n, count=lambda z: torch.full_like(z, -0.0)
    ),
    "a mask of another precision": lambda z, n: behind(z, n, wide=lambda z: z.double()),
}


def loop(fn, *given):
    return loop_of(fn, *given)[1]


def proved(node):
    return settled(node, independent(node))


GIVEN = torch.linspace(-2, 2, 600), torch.tensor(9)


@pytest.mark.parametrize("name", PROVED)
def test_what_is_proved(name, monkeypatch):
    monkeypatch.setattr(triton_loops, "MOST", 64)
    node = loop(PROVED[name], *GIVEN)
    assert proved(node)
    made = triton_loops.render(node, "k")
    assert made.form == "blocks" and "error" not in made.source.signature


@pytest.mark.parametrize("name", NOT_PROVED)
def test_what_is_not_proved(name, monkeypatch):
    monkeypatch.setattr(triton_loops, "MOST", 64)
    node = loop(NOT_PROVED[name], *GIVEN)
    assert not proved(node)
    assert "error" in triton_loops.render(node, "k").source.signature


def test_sides_that_differ_are_no_proof(monkeypatch):
    monkeypatch.setattr(triton_loops, "MOST", 64)
    assert not proved(loop(lambda z, n: either(z, n, lambda z: z + 1), *GIVEN))


def test_elements_without_a_mask():
    assert not proved(loop(all_move, torch.ones(600)))
    assert not proved(loop(halve_each, torch.ones(600)))


def test_the_workload():
    re, im = torch.zeros(30, 20), torch.ones(30, 20)
    assert proved(loop(programs.mandelbrot, re, im, torch.tensor(5, dtype=torch.int32)))
