"""Decompositions of which only values are used do not compute vectors; where a gradient needs them they are there."""

import torch

import tograph as tg
from tests.runtime.passes.text_case import same
from tograph.runtime.passes.skip_vectors import skip_vectors

TEXT = """main(%x: f32[4,3], %s: f32[3,3]) {{
  %1: f32[{u}], %2: f32[3], %3: f32[{v}] = aten._linalg_svd.default({svd})
  %4: f32[3], %5: f32[{w}] = aten._linalg_eigh.default({eigh})
  return {results}
}}"""
WHOLE = {"u": "4,3", "v": "3,3", "w": "3,3"}
NONE = {"u": "0", "v": "0", "w": "0"}


def test_values_only():
    before = TEXT.format(**WHOLE, svd="%x", eigh="%s, 'U'", results="%2, %4")
    after = TEXT.format(**NONE, svd="%x, False, False", eigh="%s, 'U', False", results="%2, %4")
    same(skip_vectors, before, after)


def test_vectors_that_are_used():
    for results in ("%1, %5", "%2, %3, %4, %5"):
        text = TEXT.format(**WHOLE, svd="%x", eigh="%s", results=results)
        same(skip_vectors, text, text)


def test_as_eager():
    def spectra(x, n):
        total = torch.zeros(3)
        for _ in tg.range(n):
            total = total + torch.linalg.svdvals(x) + torch.linalg.eigvalsh(x.t() @ x)
            x = x * 0.5
        return total, torch.linalg.matrix_norm(x, 2), torch.linalg.cond(x)

    f, x = tg.function(spectra), torch.randn(4, 3, generator=torch.Generator().manual_seed(0))
    for _ in range(4):
        torch.testing.assert_close(f(x, torch.tensor(3)), spectra(x, torch.tensor(3)))
    w = x.clone().requires_grad_()
    got = torch.autograd.grad(f(w, torch.tensor(3))[0].sum(), w)
    torch.testing.assert_close(got, torch.autograd.grad(spectra(w, torch.tensor(3))[0].sum(), w))
