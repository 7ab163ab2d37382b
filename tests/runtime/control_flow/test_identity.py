"""Which tensor a name is, after branches and loops that bind it to another one: native against `tg.function`.

Each program has a matrix x (3, 4) and a vector v (4,), writes to them under other names, and returns both.
"""

import linecache
from typing import NamedTuple

import pytest
import torch

import tograph as tg
from tograph.errors import AliasError
from tograph.runtime.control_flow.carried import Carried
from tograph.runtime.control_flow.identity import Binding, Option, first, own_option
from tograph.runtime.graph.rewrite import count_nodes
from tograph.runtime.passes import optimize


class Frozen(NamedTuple):
    part: list
    number: int


class Box:
    def __init__(self, **values):
        self.__dict__.update(values)


ROWS = [
    (4.0, 5.0, 3.0, 6.0),
    (-1.0, 2.0, 3.0, -1.0),
    (3.0, -1.0, 2.0, 7.0),
    (-1.0, -2.0, 0.0, 1.0),
    (1.0, 1.0, 2.0, -3.0),
]

PROGRAMS = """
n = v[2].int(); w = torch.ones(4)
for i in range(n):
    if v[i] > 0: w = v
    w[i] += 1
x += w
---
n = v[2].int(); w = torch.ones(4)
for i in range(n):
    w[i] += 1
    w = v
x += w
w += 1
---
n = v[2].int(); w = v
for i in range(n):
    w += 1
    w = w * 2
w += 1
x += w
---
n = v[2].int(); w = v
for i in range(n):
    w = w * 2
w += 1
x += w
---
n = v[2].int(); a = torch.zeros(4); b = v
for i in range(n):
    a, b = b, a
    a += 1
a += 1
b *= 2
x += a + 2 * b
---
n = v[2].int(); a = torch.zeros(4); b = torch.ones(4)
for i in range(n):
    a, b = b, a
    a += 1
x[0] = a
x[1] = b
---
n = v[2].int(); prev = v; cur = v
for i in range(n):
    prev = cur
    cur = cur + 1
    prev[0] += 2
x[0] = prev
x[1] = cur
---
n = v[2].int(); prev = v; cur = v
for i in range(n):
    cur = cur + 1
    if v[i] > 0: prev = cur
    cur[0] += 1
    prev[1] += 10
x[0] = prev
x[1] = cur
cur[2] = 100
x[2] = prev
---
i = v[2].int(); w = torch.ones(4)
while i > 0:
    w[0] += 1
    if v[i] > 0: w = x[1]
    w[i] += 3
    i -= 1
w += 1
---
i = v[2].int(); w = torch.ones(3)
while i > 0:
    w[0] += 1
    w = v[1:]
    i -= 1
w += 1
---
b = Box(w=torch.ones(4))
for i in range(v[2].int()):
    b.w[i] += 1
    b.w = v
b.w += 1
x += b.w
---
l = [torch.ones(4), v]
for i in range(v[2].int()):
    l[0][i] += 1
    l[0] = v
l[0] += 1
x += l[0]
---
l = [torch.ones(4), v]
for i in range(v[2].int()):
    l[0], l[1] = l[1], l[0]
    l[0] += 1
x += l[0]
l[1] *= 2
---
d = {'a': torch.ones(4), 'b': v}
for i in range(v[2].int()):
    d['a'][0] += 1
    d['a'] = d['b']
    d['b'][1] += 1
d['a'] += 1
x += d['b']
---
n = v[2].int(); y = v * 2; w = y
for i in range(n):
    y = y + 1
    w = y
    w += 1
y += 1
x += w
---
n = v[2].int(); y = v * 2; w = y
for i in range(n):
    w += 1
    x += y
    y = y + 1
    w = y
y += 1
x += w
---
n = v[2].int(); y = v * 2; w = y[1:]
for i in range(n):
    w += 1
    x += y
    y = y * 0.5
    w = y[1:]
y += 1
x[0, 1:] += w
---
n = v[2].int(); best = v; cur = v * 1
for i in range(n):
    cur = cur * 0.5 + x[i]
    if cur.sum() > best.sum(): best = cur
    cur[i] = 7
best[0] = 50
x[0] = cur
x[1] = best
---
w = torch.zeros(4); s = v.sum()
while w.add_(1).sum() < s:
    w = w * 1
x += w
---
def put(d): d['a'] = v
d = {'a': torch.ones(4)}
for i in range(v[2].int()):
    d['a'][i] += 1
    put(d)
x += d['a']
d['a'] += 1
---
w = torch.ones(4)
for i in range(v[2].int()):
    for j in range(v[2].int()):
        w[j] += 1
        w = v
    w = w if v[i] > 0 else w * 2
    w[0] += 3
x += w
w += 1
---
w = None
for i in range(v[2].int()):
    if w is None: w = v
    w[i] += 1
if w is not None:
    x += w
    w += 1
---
n = v[2].int(); w = v
for i in range(n):
    w = torch.cat([w, v])
w += 1
x += w[:4]
---
n = v[2].int(); w = v[:1]
for i in range(n):
    w[-1] += 1
    w = torch.cat([w, v])
w[0] = 9
x += w[0]
---
rows = [x[0], x[1]]; r = rows[0]
for i in range(v[2].int()):
    r += 1
    r = rows[1]
r += 5
---
a = b = torch.ones(4)
for i in range(v[2].int()):
    a += 1
    b = b * 2
    a = b
x += a
a += 1
x += b
---
p, q, r = v, x[0], x[1]
if v[0] > 0: w = p
elif v[1] > 0: w = q
else: w = r
w += 1
p[0] += 5
w[1] *= 2
---
if v[0] > 0: a = b = torch.zeros(4)
else: a = torch.ones(4); b = v
a += 1
b += 10
x[0] = a
x[1] = b
---
l = [torch.ones(4), x[2]]
if v[0] > 0: l[0] = v
l[0] += 1
x[0] = l[0]
---
w = torch.ones(4)
match v[2].int():
    case 2: w = v
    case 3: w = x[0]
    case _: pass
w += 1
x[1] = w
---
w = torch.ones(4)
try:
    w = v
    y = v[v[2].int() + 1]
except IndexError:
    w[0] += 10
w += 1
x[1] = w
---
w = torch.ones(4)
for i in range(v[2].int()):
    if v[i] > 2: continue
    w = v
    w[0] += 1
    if v[0] > 3: break
w += 1
x[0] = w
---
rows = []
for i in range(v[2].int()):
    rows = [v, x[0]]
    rows[0][i] += 1
for r in rows: r += 1
---
def pick(i):
    return v if v[i] > 0 else x[0]
w = x[1]
for i in range(v[2].int()):
    w = pick(i)
    w[i] += 1
w += 1
---
w = (v, x[0])
for i in range(v[2].int()):
    w = (w[1], w[0])
    w[0][i] += 1
w[1].add_(1)
---
a = v; b = x[0]; c = x[1]
for i in range(v[2].int()):
    a, b, c = b, c, a
    a[0] += i
    if v[1] > 0: c = c * 2
    c += 1
a += 100
b += 1000
---
state = {'h': v, 'c': x[0]}
for i in range(v[2].int()):
    state = {'h': state['c'], 'c': state['h']}
    state['h'][i] += 1
state['c'] += 1
---
o = Box(h=v)
p = Box(h=x[0])
for i in range(v[2].int()):
    o.h, p.h = p.h, o.h
    o.h[i] += 1
o.h += 10
---
h = v
for i in range(v[2].int()):
    y = h
    h = torch.relu(h) + 1
    y.mul_(2)
h.mul_(3)
x[0] = h
---
w = v
i = 0
while w.sum() < 20:
    w = w + 1
    i += 1
    if i > 3: break
w -= 1
x[1] = w
---
w = v[1:]
for i in range(v[2].int()):
    w = v[:3] if v[i] > 0 else w
    w += 1
w *= 2
---
w = x
for i in range(v[2].int()):
    w[i] += 1
    w = w.t().t()
    w[0] += 1
w.t()[0] += 3
---
y = v.clone()
z = y
n = v[2].int()
for i in range(n):
    z = z if v[0] > 0 else v
    y[i] += 1
    z[0] += 2
x[0] = y; x[1] = z
---
w = torch.zeros(4); u = w
for i in range(v[2].int()):
    for j in range(2):
        w = w + v
    u[j] += 1
    if v[1] > 0: u = w
    w[0] = 9
x[0] = u; x[1] = w
u += 1
x[2] = w
---
prev = x[0]
for i in range(v[2].int()):
    cur = x[i]
    x[i] = cur + prev
    prev = cur
---
best = v; best_s = v.sum()
for i in range(v[2].int()):
    c = x[i] * 2
    if c.sum() > best_s:
        best = c; best_s = c.sum()
best[0] = -1
x[0] = best
""".strip().split("\n---\n")


def build(text, name):
    source = "def f(x, v):\n" + "".join(f"    {line}\n" for line in text.splitlines())
    source += "    return x + 0, v + 0\n"
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    namespace = {"torch": torch, "Box": Box, "Frozen": Frozen}
    exec(compile(source, name, "exec"), namespace)
    return namespace["f"]


def outcome(function, row):
    """(result or type of the exception, x and v afterwards)"""
    x, v = torch.arange(12.0).reshape(3, 4) - 5, torch.tensor(row)
    try:
        result = [t.tolist() for t in function(x, v)]
    except Exception as error:
        result = error
    return result, x.tolist(), v.tolist()


def same(native, converted):
    if isinstance(native[0], Exception):
        return isinstance(converted[0], type(native[0])) and native[1:] == converted[1:]
    return native == converted


@pytest.mark.parametrize("text", PROGRAMS)
def test_program(text):
    native = build(text, "<identity>")
    converted = tg.function(native)
    for row in ROWS:
        one, two = outcome(native, row), outcome(converted, row)
        assert same(one, two), (row, one, two)


def refused(text, row=ROWS[0]):
    f = tg.function(build(text, "<identity>"))
    with pytest.raises(tg.errors.AliasError) as caught:
        f(torch.arange(12.0).reshape(3, 4), torch.tensor(row))
    return str(caught.value)


def test_a_view_of_a_size_that_another_iteration_chose_is_not_written():
    message = refused("w = v[1:]\nfor i in range(v[2].int()):\n    w[0] += 1\n    w = v[i:]")
    assert "'w' may share memory" in message and "line 4" in message and "clone()" in message


def test_a_read_of_a_view_that_may_have_changed_is_refused():
    text = "p = v[1:]\nfor i in range(v[2].int()):\n    c = v[i:]\n    v[i] += 1\n    x += p.sum()\n    p = c"
    assert "read after a change in place" in refused(text)


def test_a_name_that_is_not_written_and_does_not_leave_carries_no_index():
    def f(x, n):
        y = x
        for _ in range(n):
            y = y * 2
        return y.sum()

    graph = tg.function(f).get_concrete_function(torch.ones(3), torch.tensor(2)).graph
    loop = next(node for node in optimize(graph, inference=True).nodes if node.op == "While")
    assert loop.kwargs["carried"] == 2


def test_a_loop_does_not_write_an_argument_that_it_only_might_name():
    def f(x, n):
        y = x
        for _ in range(n):
            y = y * 2
        y += 1
        return y.sum()

    x = torch.ones(3, requires_grad=True)
    g = tg.function(f)
    out = g(x, torch.tensor(2))
    out.backward()
    assert x.grad.tolist() == [4, 4, 4] and x.tolist() == [1, 1, 1]
    z = torch.ones(3)
    assert g(z, torch.tensor(0)).tolist() == 6 and z.tolist() == [2, 2, 2]


def test_gradient_through_a_tensor_that_changes_names():
    def f(x, n):
        a, b = x * 1, x * 2
        for _ in range(n):
            a, b = b, a
            a.mul_(3)
        return (a * b * x).sum()

    outs = []
    for run in (f, tg.function(f)):
        x = torch.tensor([1.0, 2.0], requires_grad=True)
        outs.append(torch.autograd.grad(run(x, torch.tensor(3)), x)[0].tolist())
    assert outs[0] == outs[1]


@pytest.mark.parametrize("declared", [False, True])
@pytest.mark.parametrize("test", ["x.sum() > 1", "x.shape[0] > 1"])
def test_a_view_that_shrinks_in_each_iteration(tmp_path, test, declared):
    """The sizes of the view are known in the loop's body only."""
    path = tmp_path / "program.py"
    path.write_text(f"def f(x):\n    n = 0\n    while {test}:\n        x = x[1:]\n        n += 1\n    return x, n\n")  # fmt: skip
    namespace = {}
    exec(compile(path.read_text(), str(path), "exec"), namespace)
    signature = [tg.TensorSpec([None], torch.float32)] if declared else None
    f = tg.function(namespace["f"], input_signature=signature)
    for size in (1, 2, 5):
        (x, n), (y, m) = f(torch.ones(size)), namespace["f"](torch.ones(size))
        assert torch.equal(x, y) and n == m


def test_dot_of_a_vector_whose_size_only_the_run_knows():
    @tg.function
    def f(x, y):
        h = x
        while h.sum() < 20:
            h = torch.cat([h, x])
        return h @ y + torch.dot(h * 2, y)

    assert f(torch.ones(3), torch.ones(21)) == 63
    with pytest.raises(RuntimeError, match="inconsistent tensor size"):
        f(torch.ones(3), torch.ones(20))


@pytest.mark.parametrize("copy", ["contiguous()", "reshape(4)", "flatten()", "clone()"])
def test_a_copy_or_not_by_how_the_branch_left_it_in_memory(copy):
    source = f"""
def f(x, write):
    m = x.view(2, 2)
    if x[0] > 0:
        m = m.t()
    known = m.is_contiguous()
    m = m.{copy}
    if write:
        m += 1
    return m, known
"""
    file = f"<layouts {copy}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    space = {}
    exec(compile(source, file, "exec"), space)
    f, g = space["f"], tg.function(space["f"])
    for x in (torch.arange(1.0, 5.0), -torch.arange(1.0, 5.0)):
        (a, known), (b, same) = f(x.clone(), False), g(x.clone(), False)
        assert torch.equal(a, b) and known == same
        if copy != "clone()":
            with pytest.raises(AliasError, match="may share memory"):
                g(x.clone(), True)


def _swapping(count):
    def f(a, b, n):
        x, y = a.clone(), b.clone()
        one = x
        for i in range(count):
            if n > i:
                x, y = y, x
        one += 1
        return x * 1, y * 1

    return f


def test_names_that_swap_again_and_again_stay_small():
    """Each branch picks among what the one before picked: the graph grows by as much for each, not twofold."""
    a, b = torch.ones(2), torch.zeros(2)
    counts = []
    for count in (3, 6, 9):
        f, g = _swapping(count), tg.function(_swapping(count))
        counts.append(len(g.get_concrete_function(a, b, torch.tensor(0)).graph.nodes))
        for n in (0, 1, 2, 20):
            for one, two in zip(f(a, b, torch.tensor(n)), g(a, b, torch.tensor(n)), strict=True):
                assert torch.equal(one, two)
    assert counts[2] - counts[1] == counts[1] - counts[0] > 0


def one_of_two(x, c):
    v = x
    if c:
        v = x + 1
    v[0] += 1
    return v


def one_of_two_given(x, c):
    w = torch.ones(2) if c else x
    w.mul_(2)
    return w


@pytest.mark.parametrize("f", [one_of_two, one_of_two_given])
def test_a_write_to_a_name_that_may_be_a_leaf_is_refused_where_it_is(f):
    """The same trace has calls where it is none, and calls in which nothing requires a gradient."""
    g = tg.function(f)
    for c in (True, False, True, False):
        for make in (lambda x: x, lambda x: x.requires_grad_(), lambda x: x.requires_grad_() * 1):
            outs = []
            for run in (f, g):
                x = make(torch.tensor([1.0, 2.0]))
                try:
                    outs.append((run(x, torch.tensor(c)).tolist(), x.tolist()))
                except RuntimeError as error:
                    outs.append((str(error).split("\n")[0], x.tolist()))
            assert outs[0] == outs[1]


def test_a_write_without_gradients_to_a_name_that_may_be_a_leaf():
    def f(x, c):
        v = x if c else x * 2
        with torch.no_grad():
            v.mul_(2)
        v.data.add_(1)
        return v * x

    g = tg.function(f)
    for c in (True, False):
        outs = []
        for run in (f, g):
            x = torch.tensor([1.0, 2.0], requires_grad=True)
            y = run(x, torch.tensor(c))
            outs.append((y.tolist(), x.tolist()))
        assert outs[0] == outs[1]


class Candidate:
    def __init__(self, genes):
        self.genes = genes


def test_the_tensors_of_objects_that_are_sorted_again_in_a_loop():
    def evolved(population):
        all = [Candidate(genes) for genes in population]
        for _ in range(3):
            all.sort(key=lambda c: c.genes.sum().item())
            if all[0].genes.sum() < 0.01:
                break
            elite, children = all[:2], []
            while len(children) < len(all) - 2:
                children.append(Candidate(elite[0].genes - elite[1].genes))
            all = elite + children
        return all[0].genes

    x = torch.tensor([[2.0], [4.0], [1.0], [5.0]])
    torch.testing.assert_close(tg.function(evolved)(x), evolved(x))


def test_the_tensors_of_objects_that_share_them_and_are_sorted():
    """Swaps pick among what swaps before them picked: options count once, not once for each way to them (it never ended)."""

    def beams(x):
        best = [Candidate(x)]
        for _ in range(2):
            found = []
            for c in best:
                h = c.genes * 2
                for i in (1, 2, 3):
                    found.append(Candidate(h))
                    found[-1].words = [*getattr(c, "words", ()), int(h[0] * i)]
            found.sort(key=lambda c: c.genes.sum().item() * c.words[-1])
            best = found[:3]
            if all(c.words[-1] == 5 for c in best):
                break
        return best[0].genes, best[1].words

    x, g = torch.tensor([0.5, -2.0]), tg.function(beams)
    assert str(g(x)) == str(beams(x))
    assert count_nodes(g.concrete_functions[0].graph) < 400


def test_a_variable_that_was_a_number_or_a_tensor_before_a_loop_is_found_by_that_tensor():
    """The search of a loop begins anew with other tensors: those of an earlier one are known by the variables that held them."""
    given = Option("given", tensor=torch.zeros(()))
    two = [Option(name, tensor=torch.zeros(())) for name in "ab"]
    u, v, w = ("u", ()), ("v", ()), ("w", ())
    carried = Carried()
    carried.entry = {
        u: Binding(first, [None, None], False, [[(None, own_option(u))], [(None, given)]]),
        v: Binding(first, [None, None], False, [[(None, o)] for o in two]),
    }
    assert carried.held_before([given, own_option(w)], [given]) == [u]
    assert carried.held_before([two[0], own_option(w)], [two[0]]) == []  # one of two only
    assert carried.held_before([*two, given], two) == [v]
