"""The table of workloads: what runs, on which inputs, and how it is differentiated.

Inputs are numpy arrays from a fixed seed, so that every peer gets the same ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from . import programs

F32 = np.float32


@dataclass(frozen=True)
class Workload:
    """``program`` is called on the arrays of ``inputs()`` in order; ``kind``: forward, gradient or train; ``forward``: the workload that it is the gradient of."""

    title: str
    program: Callable
    inputs: Callable[[], dict[str, np.ndarray]]
    kind: str = "forward"
    forward: str | None = None


def _random() -> np.random.Generator:
    return np.random.default_rng(0)


def _newton():
    return {"x": np.array(2, F32), "n": np.array(10_000, np.int32)}


def _collatz():
    return {"n_steps": np.array(10_000, np.int32)}


def _power_iteration():
    r = _random()
    q, _ = np.linalg.qr(r.normal(size=(64, 64)))
    values = np.concatenate([[1.0], 0.981 * np.linspace(1, 0.1, 63)])
    v = r.normal(size=64)
    return {
        "a": ((q * values) @ q.T).astype(F32),
        "v": (v / np.linalg.norm(v)).astype(F32),
        "tolerance": np.array(1e-6, F32),
    }


def _gru():
    r, batch, hidden, steps = _random(), 32, 128, 200
    lengths = r.integers(20, 150, size=batch).astype(np.int32)
    lengths[0] = 150
    return {
        "x": r.normal(size=(steps, batch, hidden)).astype(F32),
        "lengths": lengths,
        "wx": (r.normal(size=(hidden, 3 * hidden)) / hidden**0.5).astype(F32),
        "wh": (r.normal(size=(hidden, 3 * hidden)) / hidden**0.5).astype(F32),
        "bx": (r.normal(size=3 * hidden) * 0.1).astype(F32),
        "bh": (r.normal(size=3 * hidden) * 0.1).astype(F32),
    }


def _decode():
    r, words, d = _random(), 1000, 128
    inputs = {
        "embedding": r.normal(size=(words, d)).astype(F32),
        "position": (r.normal(size=(128, d)) * 3).astype(F32),
    }
    for layer in range(2):
        for name, rows, columns in (
            ("qkv", d, 3 * d),
            ("o", d, d),
            ("u", d, 4 * d),
            ("p", 4 * d, d),
        ):
            inputs[f"{name}{layer}"] = (r.normal(size=(rows, columns)) / rows**0.5).astype(F32)
    # A token that greedy decoding does not give ends at the length limit: 127 steps for every peer.
    inputs["eos"] = np.array(-1, np.int64)
    return inputs


def _runge_kutta():
    r, batch = _random(), 1024
    return {
        "y": np.stack([r.uniform(5, 15, batch), r.uniform(2, 8, batch)]).astype(F32),
        "p": np.stack(
            [
                r.uniform(low, high, batch)
                for low, high in ((0.9, 1.3), (0.08, 0.12), (0.9, 1.6), (0.06, 0.09))
            ]
        ).astype(F32),
        "end": np.array(20, F32),
    }


def _perceptron():
    r = _random()
    inputs = {
        "x": r.normal(size=(64, 256)).astype(F32),
        "target": r.integers(0, 10, 64).astype(np.int64),
    }
    for i, (a, b) in enumerate([(256, 512), (512, 512), (512, 10)]):
        inputs[f"w{i}"] = (r.normal(size=(a, b)) / a**0.5).astype(F32)
        inputs[f"b{i}"] = np.zeros(b, F32)
    return inputs


def _rows():
    r = _random()
    return {
        "x": r.normal(size=(4096, 1024)).astype(F32),
        "scale": r.normal(size=1024).astype(F32),
        "shift": r.normal(size=1024).astype(F32),
    }


def _mandelbrot():
    re, im = np.meshgrid(np.linspace(-2, 0.6, 512), np.linspace(-1.3, 1.3, 512))
    return {"re": re.astype(F32), "im": im.astype(F32), "n": np.array(200, np.int32)}


def _trivial():
    return {"x": np.arange(4, dtype=F32), "y": np.ones(4, F32)}


WORKLOADS = {
    "a1": Workload("Newton, 10,000 scalar steps", programs.newton, _newton),
    "a2": Workload("Collatz with branches, 10,000 steps", programs.collatz, _collatz),
    "b": Workload(
        "power iteration 64x64 to convergence", programs.power_iteration, _power_iteration
    ),
    "c": Workload("GRU over dynamic lengths, forward", programs.gru, _gru),
    "cg": Workload("the same GRU, forward and backward", programs.gru, _gru, "gradient", "c"),
    "d": Workload("greedy decode with a KV cache", programs.greedy_decode, _decode),
    "e": Workload("adaptive Runge-Kutta, batch 1024", programs.runge_kutta, _runge_kutta),
    "f": Workload("training step of a perceptron", programs.train_step, _perceptron, "train"),
    "g": Workload("LayerNorm + GELU + residual, 4096x1024", programs.norm_gelu_residual, _rows),
    "h": Workload("Mandelbrot 512x512 until all escape", programs.mandelbrot, _mandelbrot),
    "i": Workload("a trivial call, 4 elements", programs.trivial, _trivial),
}
