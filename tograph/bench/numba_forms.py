"""Numba forms of the workloads that are loops over numbers, as a Numba user writes them by hand."""

import functools
import math

import numba
import numpy as np


@numba.njit
def newton(x, n):
    y = x
    i = 0
    while i < n and y > 0:
        y = np.float32(0.5) * (y + x / y)
        i += 1
    return y, i


@numba.njit
def collatz(n_steps):
    start, n, k = 3, 3, 0
    while k < n_steps:
        if n == 1:
            start += 2
            n = start
        elif n % 2 == 0:
            n = n // 2
        else:
            n = 3 * n + 1
        k += 1
    return start, n


@numba.njit
def _matvec(a, v, u):
    total = np.float32(0)
    for i in range(a.shape[0]):
        s = np.float32(0)
        for j in range(a.shape[1]):
            s += a[i, j] * v[j]
        u[i] = s
        total += s * s
    return total


@numba.njit
def power_iteration(a, v, tolerance):
    v = v.copy()
    u = np.empty_like(v)
    change, i = np.float32(1), 0
    while change > tolerance and i < 5000:
        norm = math.sqrt(_matvec(a, v, u))
        total = np.float32(0)
        for j in range(v.size):
            w = np.float32(u[j] / norm)
            total += (w - v[j]) * (w - v[j])
            v[j] = w
        change = math.sqrt(total)
        i += 1
    return v, np.float32(i)


@numba.njit(parallel=True)
def mandelbrot(re, im, n):
    count = np.zeros(re.shape, np.float32)
    for i in numba.prange(re.shape[0]):
        for j in range(re.shape[1]):
            zr = zi = np.float32(0)
            k = 0
            while k < n:
                zr, zi = zr * zr - zi * zi + re[i, j], np.float32(2) * zr * zi + im[i, j]
                if zr * zr + zi * zi > np.float32(4):
                    break
                k += 1
            count[i, j] = k
    return count


@numba.njit
def trivial(x, y):
    return x * y + np.float32(1)


FORMS = {"a1": newton, "a2": collatz, "b": power_iteration, "h": mandelbrot, "i": trivial}


def scalars(arrays):
    """0-d arrays as numpy scalars: how a Numba user passes numbers."""
    return [a if a.ndim else a[()] for a in arrays]


def prepare(key, arrays, threads):
    """A call without arguments of a workload's form."""
    numba.set_num_threads(threads)
    args = scalars(arrays.values())
    return functools.partial(FORMS[key], *args)
