"""The namespace ``ag__`` of generated code: every operator by the name that converters write."""

from __future__ import annotations

from ..runtime.guarding.reads import made_class
from ..runtime.values.structure import UNSET
from . import builtin, exit_stacks  # noqa: F401  register the staged forms of built-ins
from .asserts import assert_stmt
from .attribute_writes import delattr_, setattr_
from .attributes import attr
from .calls import call
from .class_scopes import class_name, class_scope, class_test
from .comparisons import chain, contains, is_, is_not, not_contains
from .conditional_expression import if_exp
from .context_managers import context
from .directives import given, options
from .displays import list_display, set_display, tuple_display
from .escapes import whole
from .exception_groups import group_stmt
from .for_stmt import for_stmt
from .generators import Pulled as pulled
from .generators import hand_over, with_forms
from .if_stmt import if_stmt
from .iterables import each
from .iterators import from_outside
from .keyed import new_dict, new_set
from .lists import new_list
from .logical import and_, both, either, not_, or_
from .one_by_one import has_item, item_at, result_of, source_of
from .patterns import (
    match_as,
    match_capture,
    match_captured,
    match_case,
    match_class,
    match_mapping,
    match_or,
    match_sequence,
    match_singleton,
    match_star,
    match_value,
)
from .recursion import as_loop, deeper, tail_call
from .spread import call_keywords, call_spread, spread
from .star_arguments import arguments, call_starred, rest_of
from .strings import fstring
from .subscripts import augment, delitem, getitem, setitem, slice_, store
from .try_stmt import caught, raised, try_stmt
from .unpacking import unpacked, unpacked_rest
from .user_operators import (
    add,
    bit_and,
    bit_or,
    bit_xor,
    eq,
    floordiv,
    ge,
    gt,
    invert,
    le,
    lshift,
    lt,
    matmul,
    mod,
    mul,
    ne,
    neg,
    pos,
    power,
    rshift,
    sub,
    truediv,
)
from .variables import ld, ld_free, local, variables
from .while_stmt import while_stmt
from .with_stmt import with_stmt

__all__ = [
    "UNSET",
    "add",
    "and_",
    "arguments",
    "as_loop",
    "assert_stmt",
    "attr",
    "augment",
    "bit_and",
    "bit_or",
    "bit_xor",
    "both",
    "call",
    "call_keywords",
    "call_spread",
    "call_starred",
    "caught",
    "chain",
    "class_name",
    "class_scope",
    "class_test",
    "contains",
    "context",
    "deeper",
    "delattr_",
    "delitem",
    "each",
    "either",
    "eq",
    "floordiv",
    "for_stmt",
    "from_outside",
    "fstring",
    "ge",
    "getitem",
    "given",
    "group_stmt",
    "gt",
    "hand_over",
    "has_item",
    "if_exp",
    "if_stmt",
    "invert",
    "is_",
    "is_not",
    "item_at",
    "ld",
    "ld_free",
    "le",
    "list_display",
    "local",
    "lshift",
    "lt",
    "made_class",
    "match_as",
    "match_capture",
    "match_captured",
    "match_case",
    "match_class",
    "match_mapping",
    "match_or",
    "match_sequence",
    "match_singleton",
    "match_star",
    "match_value",
    "matmul",
    "mod",
    "mul",
    "ne",
    "neg",
    "new_dict",
    "new_list",
    "new_set",
    "not_",
    "not_contains",
    "options",
    "or_",
    "pos",
    "power",
    "pulled",
    "raised",
    "rest_of",
    "result_of",
    "rshift",
    "set_display",
    "setattr_",
    "setitem",
    "slice_",
    "source_of",
    "spread",
    "store",
    "sub",
    "tail_call",
    "truediv",
    "try_stmt",
    "tuple_display",
    "unpacked",
    "unpacked_rest",
    "variables",
    "while_stmt",
    "whole",
    "with_forms",
    "with_stmt",
]  # fmt: skip
