"""``If``, ``While``, ``Case`` and ``Try`` from Python callables, at the level of values and locations.

``staged_if`` traces both callables, each in a graph of its own, rolls back what each changed, joins the two outcomes
and applies the join. ``staged_while`` finds the fixed point of its state.

* One region: ``regions``, ``leaves``, ``raising``, ``modes``.
* Alternatives: ``joining``, ``branches``, ``trying``, ``learning``, and ``attempts``, which can be undone.
* Loops: ``loops``, with ``loop_regions``, ``loop_specs``, ``loop_tests``, ``loop_histories`` of what places hold (``loop_contents``); what they begin from: ``first_iterations``, ``beginnings``, ``guesses``, ``seeds``, ``siblings``; numbers that they carry: ``number_state``; what they compute anew to differentiate it: ``recomputed``, and what it is computed from: ``reaching``; as branches: ``unrolled``. ``repeats``: iterations in Python that do the same.
  ``stale_views`` are those of tensors that they write, ``made_leaves`` what code makes a leaf of in a region, with the gradients that these have (``leaf_fields``, in loops ``loop_fields``; ``held_leaves`` are those from before a loop, ``leaf_names`` those that a name may be), ``tensor_attributes`` those that it gives to tensors.
* Which object a name holds afterwards: ``identity``, ``holes`` and ``attaching`` for tensors, ``joint``, ``carried`` (``foresight``) and ``bound`` behind joins, in loops and in
  ``try``, ``nested_choices`` and ``picking`` for choices among tensors, ``sameness`` for ``is``, ``telling`` (``containers``), ``merged``, ``doubles``
  and ``sharing`` for containers.
"""

from ...errors import ConditionError
from ..symbols.journal import Location as Place
from .attempts import Attempt, alternative, has_alternative
from .branches import predicate, staged_if, truth_number
from .joining import join_regions
from .loop_specs import LoopOptions
from .loops import staged_while
from .picking import lose
from .raising import (
    Outer,
    StagedException,
    Unreachable,
    by_sizes,
    caught,
    emit_raise,
    ends,
    fail_assertion,
    is_leaf_error,
    is_users,
    may_fail,
    outside_value,
    refuse,
    tell,
)
from .regions import ambient, attempted, close, is_module_globals, trace_region, unmoved
from .repeats import SEEN, Repeats, asks_for_python
from .sameness import same_tensor
from .seeds import outermost
from .trying import in_body, staged_try

__all__ = [
    "SEEN",
    "Attempt",
    "ConditionError",
    "LoopOptions",
    "Outer",
    "Place",
    "Repeats",
    "StagedException",
    "Unreachable",
    "alternative",
    "ambient",
    "asks_for_python",
    "attempted",
    "by_sizes",
    "caught",
    "close",
    "emit_raise",
    "ends",
    "fail_assertion",
    "has_alternative",
    "in_body",
    "is_leaf_error",
    "is_module_globals",
    "is_users",
    "join_regions",
    "lose",
    "may_fail",
    "outermost",
    "outside_value",
    "predicate",
    "refuse",
    "same_tensor",
    "staged_if",
    "staged_try",
    "staged_while",
    "tell",
    "trace_region",
    "truth_number",
    "unmoved",
]
