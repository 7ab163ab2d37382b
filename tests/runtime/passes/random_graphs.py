"""Random graphs with regions, resources, random ops, prints, lists and ops that fail, and what running them shows.

`random_graph(seed)` draws a graph over tensors of 3 numbers, 3 x 3 matrices, bools, Python numbers and lists; its last
two inputs are resources. Every loop ends: it counts its first state up to a small bound. `observe` runs a graph by
the reference interpreter and gives all that can be seen: results, which of them share storage, printed text, the
error, and the resources afterwards.
"""

import contextlib
import functools
import io
import random

import torch

from tograph.runtime.graph import interp
from tograph.runtime.graph.ir import Graph, Node, Value
from tograph.runtime.graph.ops import OpaqueObject
from tograph.runtime.graph.types import BOOL, INT, ListType, TensorType

F = TensorType(torch.float32, (3,))
M = TensorType(torch.float32, (3, 3))
S = TensorType(torch.float32, ())
B = TensorType(torch.bool, ())
L = ListType(F)
RESOURCES = [F, M]
CATCH = (ZeroDivisionError, IndexError, AssertionError)


class Scope:
    """The values of a graph under construction, by type."""

    def __init__(self, rng, graph, resources):
        self.rng, self.graph, self.resources = rng, graph, resources
        self.values = {}

    def have(self, value):
        self.values.setdefault(value.type, []).append(value)
        return value

    def emit(self, op, *args, types=(), regions=None, **kwargs):
        node = Node(
            op,
            args,
            kwargs,
            types,
            regions=regions,
            location=("user.py", len(self.graph.nodes) + 1),
        )
        self.graph.nodes.append(node)
        for value in node.outputs:
            self.have(value)
        return node

    def one(self, op, *args, type, **kwargs):
        return self.emit(op, *args, types=(type,), **kwargs).outputs[0]

    def get(self, kind):
        found = self.values.get(kind)
        if found and self.rng.random() < 0.93:
            return self.rng.choice(found[-6:])
        return MAKE[kind](self)

    def number(self):
        return self.rng.choice([0, 1, 2, -1]) if self.rng.random() < 0.75 else self.get(INT)


MAKE = {
    F: lambda s: s.one("aten.full.default", [3], float(s.rng.randrange(-1, 3)), type=F),
    M: lambda s: s.one("aten.zeros.default", [3, 3], type=M),
    S: lambda s: s.one("aten.sum.default", s.get(F), type=S),
    B: lambda s: s.one("aten.gt.Scalar", s.get(S), s.rng.choice([0, 1, 5]), type=B),
    INT: lambda s: s.one("py.constant", s.rng.randrange(-2, 4), type=INT),
    BOOL: lambda s: s.one("py.lt", s.number(), s.number(), type=BOOL),
    L: lambda s: s.one("tg.list_of", s.get(F), s.get(F), type=L),
}


def pointwise(s):
    op = s.rng.choice(["add", "sub", "mul"])
    other = s.get(F) if s.rng.random() < 0.6 else s.rng.choice([0, 1, 1.0, 2, -0.0])
    s.one(f"aten.{op}.Tensor", s.get(F), other, type=F)


def unary(s):
    s.one(f"aten.{s.rng.choice(['neg', 'abs', 'clone', 'relu'])}.default", s.get(F), type=F)


def copy(s):
    s.one("aten.copy.default", s.get(F), s.get(F), type=F)


def row(s):
    s.one("aten.select.int", s.get(M), 0, s.number(), type=F)


def write_row(s):
    s.one("aten.select_scatter.default", s.get(M), s.get(F), 0, s.number(), type=M)


def write_rows(s):
    s.one(
        "aten.index_put.default",
        s.get(M),
        [
            s.one(
                "aten.full.default",
                [1],
                s.number(),
                type=TensorType(torch.int64, (1,)),
                dtype=torch.int64,
            )
        ],
        s.get(F),
        type=M,
    )


def transposed(s):
    s.one("aten.t.default", s.get(M), type=M)


def product(s):
    s.one("aten.mv.default", s.get(M), s.get(F), type=F)


def fresh(s):
    MAKE[s.rng.choice(list(MAKE))](s)


def arithmetic(s):
    s.one(
        f"py.{s.rng.choice(['add', 'mul', 'sub', 'floordiv', 'min'])}",
        s.number(),
        s.number(),
        type=INT,
    )


def noise(s):
    s.one("aten.rand_like.default", s.get(F), type=F)


def show(s):
    s.emit("tg.print", "at", s.get(s.rng.choice([F, INT, L, S])))


def read(s):
    resource = s.rng.choice(s.resources)
    s.one("tg.read", resource, type=resource.type)


def assign(s):
    resource = s.rng.choice(s.resources)
    s.emit("tg.assign", resource, s.get(resource.type))


def update(s):
    """A write in place as tracing records it: read, change, assign."""
    resource = s.rng.choice(s.resources)
    kind = resource.type
    x = s.one("tg.read", resource, type=kind)
    if s.rng.random() < 0.4:
        other = s.get(F) if s.rng.random() < 0.5 else s.one("aten.mul.Tensor", x, 2, type=kind)
        x = s.one("aten.add.Tensor", x, other, type=kind)
    elif kind == M:
        v = s.get(F) if s.rng.random() < 0.6 else s.one("aten.select.int", x, 0, 1, type=F)
        x = s.one("aten.select_scatter.default", x, v, 0, s.number(), type=M)
    else:
        part = TensorType(torch.float32, (2,))
        v = s.one("aten.slice.Tensor", x if s.rng.random() < 0.5 else s.get(F), 0, 0, 2, type=part)
        x = s.one("aten.slice_scatter.default", x, v, 0, 1, 3, type=F)
    if s.rng.random() < 0.3:
        pick(s.rng, LEAVES)(s)
    s.emit("tg.assign", resource, x)


def check(s):
    s.emit("tg.assert", s.get(s.rng.choice([B, BOOL])), "AssertionError", ("no",))


def push(s):
    s.one("tg.list_push", s.get(L), s.get(F), type=L)


def replace_item(s):
    s.one("tg.list_set", s.get(L), s.number(), s.get(F), type=L)


def item(s):
    s.one("tg.list_get", s.get(L), s.number(), type=F)


def pop(s):
    s.emit("tg.list_pop", s.get(L), -1, types=(L, F))


def size(s):
    s.one("tg.list_size", s.get(L), type=INT)


def region(s, name, kinds_in, depth):
    """A graph with inputs of given types and the resources, and a scope for its nodes."""
    graph = Graph(name)
    graph.inputs = [Value(k) for k in kinds_in] + [Value(r.type) for r in s.resources]
    graph.input_names = [""] * len(graph.inputs)
    inner = Scope(s.rng, graph, graph.inputs[len(kinds_in) :])
    for value in graph.inputs[: len(kinds_in)]:
        inner.have(value)
    return graph, inner


def captures(s):
    kinds = [s.rng.choice([F, F, M, S, B, INT, BOOL, L]) for _ in range(s.rng.randrange(1, 5))]
    return kinds, [s.get(k) for k in kinds]


def alternatives(op, names, head):
    def build(s, depth):
        kinds, args = captures(s)
        test = head(s)
        if s.rng.random() < 0.2 and isinstance(test, Value):
            kinds, args = [*kinds, test.type], [*args, test]
        outs = [s.rng.choice([F, M, INT, L]) for _ in range(s.rng.randrange(0, 3))]
        regions = {}
        for name in names:
            graph, inner = region(s, name, kinds, depth)
            fill(inner, depth + 1)
            graph.outputs = [inner.get(k) for k in outs]
            regions[name] = graph
        heads = () if test is None else (test,)
        extra = {"kinds": (OpaqueObject(CATCH, "kinds"),)} if op == "Try" else {}
        s.emit(op, *heads, *args, *s.resources, types=outs, regions=regions, **extra)

    return build


def loop(s, depth):
    kinds, args = captures(s)
    state = [INT, *(s.rng.choice([F, M, M, INT, L]) for _ in range(s.rng.randrange(0, 4)))]
    initial = [s.rng.choice([0, 0, 1, 3]), *(s.get(k) for k in state[1:])]
    cond, inner = region(s, "cond", [*state, *kinds], depth)
    bound = (
        2
        if s.rng.random() < 0.7 or INT not in kinds
        else cond.inputs[len(state) + kinds.index(INT)]
    )
    test = inner.one("py.lt", cond.inputs[0], 2, type=BOOL)
    if isinstance(bound, Value):
        other = inner.one("py.lt", cond.inputs[0], bound, type=BOOL)
        test = inner.one("py.and_", test, other, type=BOOL)
    cond.outputs = [test]
    body, inner = region(s, "body", [*state, *kinds], depth)
    fill(inner, depth + 1)
    step = inner.one("py.add", body.inputs[0], 1, type=INT)
    kept = [
        body.inputs[i] if s.rng.random() < 0.25 else inner.get(k) for i, k in enumerate(state) if i
    ]
    body.outputs = [step, *kept]
    s.emit(
        "While",
        *initial,
        *args,
        *s.resources,
        types=state,
        regions={"cond": cond, "body": body},
        carried=len(state),
    )


def index(s):
    return s.number()


LEAVES = {pointwise: 8, unary: 4, copy: 1, row: 3, write_row: 7, write_rows: 1, transposed: 1, product: 1,
          fresh: 2, arithmetic: 4, noise: 0.7, show: 0.7, read: 3, assign: 2, update: 3, check: 0.15, push: 2, replace_item: 1,
          item: 2, pop: 0.4, size: 1}  # fmt: skip
REGIONS = {
    alternatives("If", ["then", "orelse"], lambda s: s.get(s.rng.choice([B, BOOL]))): 3,
    alternatives("Case", ["branch0", "branch1", "branch2"], index): 1,
    alternatives("Call", ["function"], lambda s: None): 1,
    alternatives("Try", ["body", "handler0"], lambda s: None): 0.4,
    loop: 3,
}


def pick(rng, table):
    return rng.choices(list(table), list(table.values()))[0]


def fill(s, depth):
    for _ in range(s.rng.randrange(1, 9 if depth else 14)):
        if depth < 3 and s.rng.random() < 0.2:
            pick(s.rng, REGIONS)(s, depth)
        else:
            pick(s.rng, LEAVES)(s)
        if s.rng.random() < 0.12 and s.graph.nodes and not s.graph.nodes[-1].regions:
            again(s, s.rng.choice(s.graph.nodes))


def again(s, node):
    """The same node once more: something to merge."""
    if not node.regions:
        s.emit(node.op, *node.args, types=[v.type for v in node.outputs], **node.kwargs)


def random_graph(seed):
    rng = random.Random(seed)
    graph = Graph("main")
    kinds = [F, F, M, B, INT, S]
    graph.inputs = [Value(k) for k in kinds] + [Value(k) for k in RESOURCES]
    graph.input_names = [""] * len(graph.inputs)
    s = Scope(rng, graph, graph.inputs[-len(RESOURCES) :])
    for value in graph.inputs[: -len(RESOURCES)]:
        s.have(value)
    fill(s, 0)
    outs = [rng.choice([F, M, M, INT, L, S]) for _ in range(rng.randrange(1, 5))]
    graph.outputs = [s.get(k) for k in outs]
    return graph


def inputs_of(seed):
    generator = torch.Generator().manual_seed(seed)
    x, y, r1 = torch.randint(-2, 4, (3, 3), generator=generator).float().unbind(0)
    m, r2 = torch.randint(-1, 2, (2, 3, 3), generator=generator).float().unbind(0)
    i = seed % 4
    return [
        x.clone(),
        y.clone(),
        m,
        torch.tensor(bool(seed & 1)),
        i,
        torch.tensor(float(seed % 3)),
        r1.clone(),
        r2.clone(),
    ]


def freeze(x):
    """A run-time value by content, bit by bit."""
    if isinstance(x, torch.Tensor):
        return (
            str(x.dtype),
            tuple(x.shape),
            x.contiguous().view(torch.uint8).tolist() if x.dim() else repr(x.item()),
        )
    if isinstance(x, (tuple, list)):
        return type(x).__name__, tuple(map(freeze, x))
    return type(x).__name__, repr(x)


def storages(x):
    if isinstance(x, torch.Tensor):
        return [x.untyped_storage().data_ptr()]
    return [p for v in x for p in storages(v)] if isinstance(x, (tuple, list)) else []


def shared(values):
    """The pairs of values that share storage."""
    found = [set(storages(v)) for v in values]
    return {(i, j) for j in range(len(found)) for i in range(j) if found[i] & found[j]}


def observe(graph, seed, run=interp.run):
    """(what a run of the graph shows, the pairs of inputs and outputs that share storage)."""
    inputs = inputs_of(seed)
    torch.manual_seed(seed)
    outputs, error = [], None
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        try:
            outputs = run(graph, inputs)
        except Exception as found:
            error = type(found).__name__, str(found)
    draw = torch.rand(()).item()
    seen = {"outputs": list(map(freeze, outputs)), "inputs": list(map(freeze, inputs)), "error": error,
            "printed": printed.getvalue(), "next random number": draw}  # fmt: skip
    return seen, shared([*inputs, *outputs])


@functools.lru_cache(maxsize=256)
def original(seed):
    """A random graph, which nobody may change, and what a run of it shows: each pass is asked about the same ones."""
    graph = random_graph(seed)
    return graph, observe(graph, seed)


def difference(before, after, seed, run=interp.run):
    """None, or how runs of two graphs differ."""
    return compare(observe(before, seed), observe(after, seed, run))


def compare(before, after):
    """None, or how two observations differ."""
    (one, pairs), (two, more) = before, after
    for key in one:
        if one[key] != two[key]:
            return f"{key}: {one[key]} before, {two[key]} after"
    if not more <= pairs:
        return f"results that share storage: {sorted(pairs)} before, {sorted(more)} after"
    return None
