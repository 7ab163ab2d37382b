"""The namespace ``ag__`` of generated code: every operator by the name that converters write."""

from __future__ import annotations

from ..runtime.structure import UNSET
from . import builtin  # noqa: F401  registers the staged forms of built-ins
from .asserts import assert_stmt
from .attributes import attr, delattr_, setattr_
from .calls import call
from .comparisons import chain, contains, is_, is_not, not_contains
from .conditional_expression import if_exp
from .context_managers import context
from .directives import options
from .escapes import whole
from .for_stmt import for_stmt
from .generators import hand_over
from .if_stmt import if_stmt
from .lists import new_list
from .logical import and_, not_, or_
from .match_stmt import (
    match_as,
    match_capture,
    match_case,
    match_class,
    match_mapping,
    match_or,
    match_sequence,
    match_singleton,
    match_star,
    match_value,
)
from .strings import fstring, percent
from .subscripts import augment, delitem, getitem, setitem, slice_
from .try_stmt import caught, try_stmt
from .variables import ld, local, variables
from .while_stmt import while_stmt

__all__ = [
    "UNSET", "and_", "assert_stmt", "attr", "augment", "call", "caught", "chain", "contains", "context", "delattr_", "delitem", "for_stmt",
    "fstring", "getitem", "hand_over", "if_exp", "if_stmt", "is_", "is_not", "ld", "local", "match_as", "match_capture", "match_case",
    "match_class", "match_mapping", "match_or", "match_sequence", "match_singleton", "match_star", "match_value", "new_list", "not_",
    "not_contains", "options", "or_", "percent", "setattr_", "setitem", "slice_", "try_stmt", "variables", "while_stmt",
    "whole",
]  # fmt: skip
