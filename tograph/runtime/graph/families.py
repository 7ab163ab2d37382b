"""Ops of one meaning, by name: what several readers of graphs ask of a node.

Conditions and counts stand in a graph on Python numbers (``py.*``) and on tensors (``aten.*``) alike. Who reads them, to know how often
a loop runs or what holds in a branch, has to know both; what moves values, chooses or fails is known by few names too. A family
is what all who ask agree on; a reader that takes a further op names it beside the family.
"""

ALTERNATIVES = ("If", "Case")  # at most one region runs, at most once
# Their regions may be given more inputs and results; those of a Try may not.
CONSTRUCTS = (*ALTERNATIVES, "While", "Call")
FAILURES = ("tg.raise", "tg.reraise")  # nothing behind them runs
ITEM_READS = ("tg.list_get", "tg.list_pop")
FORMATS = ("py.format", "py.percent", "py.str_format")  # texts of values, as ``print`` takes them

CONJUNCTIONS = ("py.and_", "aten.logical_and.default", "aten.bitwise_and.Tensor")
DISJUNCTIONS = ("py.or_", "aten.logical_or.default", "aten.bitwise_or.Tensor")
NEGATIONS = ("py.not", "aten.logical_not.default", "aten.bitwise_not.default")
# Of what is true or false they give the same.
TRUTHS = ("py.bool", "py.truth", "py.int", "aten.scalar_tensor.default")
SUMS = ("py.add", "aten.add.Tensor", "aten.add.Scalar")
DIFFERENCES = ("py.sub", "aten.sub.Tensor", "aten.sub.Scalar")
PRODUCTS = ("py.mul", "aten.mul.Tensor", "aten.mul.Scalar")
MATRIX_PRODUCTS = {"aten.mm.default": 0, "aten.addmm.default": 1}  # where the left factor stands
ZEROS = ("aten.zeros.default", "aten.zeros_like.default")

OPPOSITE = {"lt": "ge", "le": "gt", "gt": "le", "ge": "lt", "eq": "ne", "ne": "eq"}
MIRRORED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}  # a < b is b > a
RELATIONS = {f"{p}{w}{s}": w for w in OPPOSITE for p, s in (("py.", ""), ("aten.", ".Scalar"), ("aten.", ".Tensor"))}  # fmt: skip
