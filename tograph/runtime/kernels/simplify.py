"""Loops in their best order: neighbours merged where every address allows it, the contiguous one innermost.

Merging ``i<4, j<8`` into ``j<32`` is legal when every address has a factor of ``i`` that is 8 times its factor of ``j``.
Outer loops and row loops are never merged with each other.
"""

from __future__ import annotations

import math
from dataclasses import replace

from .loop_ir import Affine, Dim, Expr, Kernel, Store, ordered


def simplify(kernel: Kernel) -> Kernel:
    """The same kernel with loops sorted and merged, and its body renumbered."""
    outer = _sort(kernel.outer, [s.address for s in kernel.stores])
    ordered_fold = any(e.op == "scan" for e in kernel.body)
    loads = [e.address for e in kernel.body if e.op == "load" and e.address is not None]
    row = kernel.row if ordered_fold else _sort(kernel.row, loads)
    addresses = [e.address for e in kernel.body if e.address is not None]
    addresses += [s.address for s in kernel.stores]
    outer, gone = _merge(outer, addresses)
    row, gone_too = (row, frozenset()) if ordered_fold else _merge(row, addresses)
    return _without(kernel, outer, row, gone | gone_too)


def _sort(dims: tuple[Dim, ...], addresses: list[Affine]) -> tuple[Dim, ...]:
    """Large strides outside, those that are known only at run time before all. The first address that uses a loop decides."""

    def key(dim: Dim) -> tuple:
        factors = [a.factor(dim.name) for a in addresses]
        known = [abs(f) if type(f) is int else math.inf for f in factors if f]
        return (-(known[0] if known else 0),)

    return tuple(sorted(dims, key=key))


def _merge(dims: tuple[Dim, ...], addresses: list[Affine]) -> tuple[tuple[Dim, ...], frozenset]:
    kept: list[Dim] = []
    gone: set[str] = set()
    for dim in reversed(dims):
        if kept and _mergeable(dim, kept[-1], addresses):
            inner = kept[-1]
            assert type(inner.size) is int and type(dim.size) is int
            kept[-1] = Dim(inner.name, inner.size * dim.size)
            gone.add(dim.name)
        else:
            kept.append(dim)
    return tuple(reversed(kept)), frozenset(gone)


def _mergeable(outside: Dim, inside: Dim, addresses: list[Affine]) -> bool:
    size = inside.size
    if type(size) is not int or type(outside.size) is not int:
        return False
    for address in addresses:
        near, far = address.factor(inside.name), address.factor(outside.name)
        if type(near) is not int or type(far) is not int or far != near * size:
            return False
    return True


def _without(kernel: Kernel, outer, row, gone: frozenset[str]) -> Kernel:
    """The kernel with the variables ``gone`` dropped from all addresses, and the body numbered from 0."""
    mapped: dict[Expr, Expr] = {}

    def address(a: Affine) -> Affine:
        return Affine(
            tuple((n, f) for n, f in a.terms if n not in gone),
            a.offset,
            tuple((mapped[e], f) for e, f in a.gathers),
        )

    for number, e in enumerate(kernel.body):
        mapped[e] = replace(
            e,
            args=tuple(mapped[x] for x in e.args),
            address=None if e.address is None else address(e.address),
            number=number,
        )
    stores = tuple(Store(s.buffer, address(s.address), mapped[s.value]) for s in kernel.stores)
    gathered = [e for s in stores for e, _ in s.address.gathers]
    body = tuple(ordered([*gathered, *(s.value for s in stores)]))
    return replace(kernel, outer=outer, row=row, body=body, stores=stores, _facts={})
