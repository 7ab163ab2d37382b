"""``LOBPCG._get_ortho``, the orthogonalisation of ``torch.lobpcg``, in a graph: two loops whose exits the data decide.

The algorithm is number 3 (with ``ortho_use_drop``: 6) of Duersch, High Performance Spectral Methods for Graph-Based Machine Learning (PhD thesis,
Berkeley, 2015), in torch's steps and order, so that the iterates are torch's. Torch keeps the error of each step under a key made of the loop
counters, which a tracker may look at: here they are kept in a tensor while the loops run, and put under their keys where there is a tracker.
"""

from __future__ import annotations

import torch
from torch import _linalg_utils, _lobpcg

from ...runtime.symbols.funcgraph import is_tracing
from ..call_rules import DECIDING
from ..conversion import converted
from ..registry import handles


@handles(_lobpcg.LOBPCG._get_ortho)
def get_ortho(worker, u, v):
    """Columns that are B-orthonormal, and B-orthogonal to those of ``v``: (m, n1), n1 <= n."""
    if not is_tracing():
        return _lobpcg.LOBPCG._get_ortho(worker, u, v)
    return converted(_orthogonalise)(worker, u, v)


def _orthogonalise(worker, u, v):
    fvars, i_max, j_max = worker.fvars, worker.iparams["ortho_i_max"], worker.iparams["ortho_j_max"]
    # for a tracker: row i has the errors of the steps j, and last that of the whole; below 0 where there was no such step
    tracked = worker.tracker is not None
    errors = torch.full((i_max, j_max + 1), -1.0, dtype=torch.float64) if tracked else None
    norm = torch.norm(_linalg_utils.matmul(worker.B, v))
    products = torch.matmul(v.mT, _linalg_utils.matmul(worker.B, u))
    i = j = 0
    for i in range(i_max):
        u = u - torch.matmul(v, products)
        u, b_u, j = _normalise(worker, u, errors, i, j)
        if torch.numel(u) == 0:
            break  # all columns are B-collinear to v
        products = torch.matmul(v.mT, b_u)
        error = float(torch.norm(products)) * float(norm * torch.norm(u)) ** -1
        if errors is not None:
            errors[i, j_max] = error
        if error < worker.fparams["ortho_tol"]:
            break
        if worker.iparams["m"] < u.shape[-1] + v.shape[-1]:
            _overdetermined(worker.B, u, v)
    if errors is not None:
        for key, row, column in _keys(i_max, j_max):
            if errors[row, column] >= 0:
                fvars[key] = float(errors[row, column])
            else:
                fvars.pop(key, None)  # of an earlier call
    worker.ivars["ortho_i"] = i
    worker.ivars["ortho_j"] = j
    return u


def _normalise(worker, u, errors, i, j):
    """``u`` with B-orthonormal columns, its product with B, and the last step."""
    drop, tau = worker.bparams["ortho_use_drop"], worker.fparams["ortho_tol_drop"]
    b_u = _linalg_utils.matmul(worker.B, u)
    for j in range(worker.iparams["ortho_j_max"]):
        if drop and j == 0:
            u = worker._get_svqb(u, False, tau)
        else:
            u = worker._get_svqb(u, drop, worker.fparams["ortho_tol_replace"])
        if torch.numel(u) == 0:
            break
        b_u = _linalg_utils.matmul(worker.B, u)
        gram = torch.matmul(u.mT, b_u)
        away = torch.norm(gram - torch.eye(gram.shape[-1], device=gram.device, dtype=gram.dtype))
        error = float(away) * float(torch.norm(b_u) * torch.norm(u)) ** -1
        if errors is not None:
            errors[i, j] = error
        if error < worker.fparams["ortho_tol"]:
            break
    return u, b_u, j


def _overdetermined(b, u, v):
    if b is None:
        raise AssertionError("B must not be None")
    raise ValueError(
        f"Overdetermined shape of U: #B-cols(={b.shape[-1]}) >= #U-cols(={u.shape[-1]}) + #V-cols(={v.shape[-1]}) must hold"
    )


def _keys(i_max, j_max):
    """(key, row, column) of each error, in the order of the steps."""
    for i in range(i_max):
        yield from ((f"ortho_UBUmI_rerr[{i}, {j}]", i, j) for j in range(j_max))
        yield f"ortho_VBU_rerr[{i}]", i, j_max


DECIDING.update((_orthogonalise, _normalise, _overdetermined))
