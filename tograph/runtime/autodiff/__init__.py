"""Gradients of graphs. See ``connect`` for how ops with regions get theirs, ``joint`` for graphs, ``vjp`` for the transform.

* Graphs: ``joint`` records forward and backward, ``parting`` cuts them apart (``replay``, ``objects``, ``graphs``, ``rules``), ``cut`` chooses what is saved, of what is ``unsaved`` in eager PyTorch too, ``missing`` are derivatives that torch does not have, ``vjp`` is the transform.
* Ops with regions: ``alternatives``, ``loops`` (``trips``, ``counters``, ``dependence``, ``deferred``, ``checkpoint``), ``earlier`` (``body_reads``) for gradients inside of a loop's body, with
  respect to ``made_leaves`` too, and of any of the ``orders``; ``leading`` says which of them there are.
* Calls: ``pairs``, ``shares`` and ``nodes`` make the functions of autograd, ``direct`` the short way of most (``nesting`` flattens lists for these, ``spare`` is what they keep beside torch, ``generator_states`` of random ones), ``ended`` are results of which the function took the gradient, ``absent`` leaves out what has no cotangent, ``routes``, ``paths`` and ``inside`` say which results and inputs have gradients,
  ``given_leaves`` are made and given by a construct, ``separate`` and ``list_items`` say which cannot be asked for, ``by_items`` which may be None by what a list holds (``item_ways`` tells it for gradients from outside), ``freed_runs`` which come to what was freed (``freed_items``: by what a list holds; ``apart_items``: lists whose items share nothing), ``passing`` which are of two names, ``unwrapped`` what is saved in some runs only, ``unbased`` are views of memory of the call's own, ``looked`` what a run would not have saved, ``rewritten`` what tensors have that a call writes (``own_history`` and ``contents``: those that keep theirs),
  ``returned`` are leaves that it makes and gives, ``own_leaves`` those that it does not give, ``item_leaves`` those in lists, ``plain`` asks for them inside, ``leaf_copies`` are those in copies.
"""

from . import by_items as by_items
from . import freed_runs as freed_runs
from .alternatives import alternatives
from .dependence import reached
from .earlier import expand
from .ended import Ended
from .given_leaves import give_tokens, is_made_leaf
from .inside import ways
from .item_leaves import FROZEN, NEW, item_code, item_codes, passed_code
from .loops import loop
from .own_leaves import OwnLeaves
from .pairs import Differentiable, supported
from .passing import passing
from .returned import Made, ReturnedLeaves
from .rewritten import Rewrites, give_history
from .separate import separate
from .vjp import Pullback, vjp

__all__ = [
    "FROZEN",
    "NEW",
    "Differentiable",
    "Ended",
    "Made",
    "OwnLeaves",
    "Pullback",
    "ReturnedLeaves",
    "Rewrites",
    "alternatives",
    "expand",
    "give_history",
    "give_tokens",
    "is_made_leaf",
    "item_code",
    "item_codes",
    "loop",
    "passed_code",
    "passing",
    "reached",
    "separate",
    "supported",
    "vjp",
    "ways",
]
