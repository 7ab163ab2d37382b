"""Random programs about state: what `program_generator` leaves out.

`generate(seed)` makes a module of one function `f(a, n)` over outer objects: a box with attributes, a list, a dict, a
set, a variable, a tensor, a counter that an inner function rebinds, a small class with methods, a property and a context
manager, generators, printing, assertions, raising and catching. `Stateful` holds what a run can see afterwards.

Invariants: loops end, numbers stay small, an attribute keeps its kind, lists of outer objects change their length outside of
staged branches only (that is refused, see docs/limits/gradients.md).
"""

import dataclasses
import random

import torch

HEAD = """
class Box:
    total = 0

    def __init__(self, n):
        self.n, self.t, self.items, self.last = n, torch.tensor(float(n)), [n, n + 1], None

    def bump(self, k):
        self.n = (self.n + k) % 11
        return self.n

    @property
    def double(self):
        return self.n * 2

    @double.setter
    def double(self, value):
        self.n = value % 7

    def __enter__(self):
        self.n = (self.n + 1) % 13
        return self

    def __exit__(self, *exception):
        return False


@dataclasses.dataclass
class Point:
    x: int
    y: object


box, other = Box(1), Box(4)
xs, d, s = [1, 2], {"k": 1}, {1, 2}
v = tg.Variable(0.5, requires_grad=False)
w = torch.zeros(3)
q = collections.deque([1, 2, 3], maxlen=3)


def make():
    count = 0

    def step(k):
        nonlocal count
        count = (count + k) % 9
        return count

    return step


step = make()


def helper(o, k):
    if k > 2:
        o.n = (o.n + 1) % 11
    else:
        o.last = k
    return o.n


def numbers(k):
    i = 0
    while i < k:
        yield i * 2
        i += 1
"""

SEEN = ("box", "other", "xs", "d", "s", "v", "w", "q")


@dataclasses.dataclass
class Stateful:
    """A program, the arguments of its calls, and the names of the objects to look at afterwards."""

    source: str
    calls: list


class Writer:
    """Draws the body of `f(a, n)`: `a` is a small int tensor, `n` a count, staged or not."""

    def __init__(self, seed, size):
        self.rng = random.Random(seed)
        self.budget = size
        self.counter = 0

    def statement(self, depth, loop):
        """The lines of one statement; `loop`: it may end an iteration."""
        raise NotImplementedError

    def pick(self, *options):
        return self.rng.choice(options)

    def block(self, depth, loop=False):
        lines = []
        for _ in range(self.rng.randrange(1, 4)):
            lines += self.statement(depth, loop)
        return ["    " + line for line in lines]


def drawn_calls(seed, tensors):
    """The arguments of two calls; `tensors`: how often a count is one."""
    rng = random.Random(seed + 10**6)
    calls = []
    for _ in range(2):
        n = rng.randrange(4)
        a = torch.tensor(rng.randrange(-1, 5))
        calls.append((a, torch.tensor(n) if rng.random() < tensors else n))
    return calls


class StateWriter(Writer):
    """Changes of outer objects, prints, assertions and exceptions."""

    def number(self):
        return self.pick(
            "a",
            "n",
            "k",
            "k + 1",
            "a % 3",
            "box.n",
            "other.n",
            "d['k']",
            "xs[0]",
            "len(xs)",
            "box.double",
            "step(1)",
            "2",
        )

    def test(self):
        x = self.number()
        return self.pick(f"{x} > {self.rng.randrange(4)}", f"{x} % 2 == 0", f"{x} < a", "v > 1.0", "w.sum() > 2", "box.last is None",
                         f"box.n < {x} < 8", "'z' in d", "box.flag if hasattr(box, 'flag') else a > 1")  # fmt: skip

    def outer(self):
        """Changes that any place may hold."""
        x, o = self.number(), self.pick("box", "other")
        return [self.pick(
            f"{o}.n = ({x}) % 7", f"{o}.n += 1", f"{o}.bump({x} % 5)", f"{o}.t = {o}.t * 0.5 + 1", f"{o}.t += 1", f"{o}.double = {x}",
            f"{o}.last = {x}", f"setattr({o}, 'n', ({x}) % 5)", f"{o}.items[0] = {x}", f"{o}.flag = a > {x}",
            f"d['k'] = ({x}) % 5", "d['k'] += 1", f"xs[1] = {x}", "v.assign_add(0.5)", f"v.assign(v * 0.5 + {x} * 0.1)", "w[0] += 1",
            f"w[{x} % 3] = 2.0", "w.mul_(0.5)", f"k = step({x} % 4)", f"k = helper({o}, {x}) % 7", "y = y + v", "y = y * 0.5 + box.t",
            f"k = (k + {x}) % 9", "(box if a > 1 else other).n = 3", "p.x = (p.x + 1) % 9", "p.y = y", "Box.total += 1",
            "row = w[1:]; row.add_(0.25)", "y, k = box.t, box.n",
        )]  # fmt: skip

    def effect(self):
        x = self.number()
        return [self.pick(f"print('p', {x})", "print(y)", f"tg.print('t', {x})", f"assert {x} < {self.pick(3, 8, 40)}, 'too large'",
                          "tg.py_function(lambda z: print('py', float(z)), [y], None)")]  # fmt: skip

    def plain(self):
        """Changes outside of staged branches: lengths may change."""
        x = self.number()
        return [self.pick(f"xs.append({x})", "s.add(7)", f"q.append({x})", "xs.insert(0, 5)", "d['z'] = 1", "xs.extend([k, 1])", "s.discard(2)",
                          f"box.items.append({x})", "xs.pop() if len(xs) > 2 else 0", "d.pop('z', None)", "xs.sort(key=lambda e: 0)")]  # fmt: skip

    def statement(self, depth, loop):
        self.budget -= 1
        r = self.rng.random()
        if depth == 0 and r < 0.2:
            return self.plain()
        if depth < 3 and self.budget > 0 and r < 0.55:
            return self.nest(depth, loop)
        if r < 0.68:
            return self.effect()
        if r < 0.72 and depth:
            error = self.pick("ValueError('v')", "KeyError('k')", "RuntimeError(f'r {k}')")
            return [f"if {self.test()}:", f"    raise {error}"]
        if r < 0.75 and loop:
            return [f"if {self.test()}:", f"    {self.pick('break', 'continue')}"]
        return self.outer()

    def nest(self, depth, loop):
        kind = self.rng.randrange(9)
        if kind < 4:
            lines = [f"if {self.test()}:", *self.block(depth + 1, loop)]
            return lines + (
                ["else:", *self.block(depth + 1, loop)] if self.rng.random() < 0.5 else []
            )
        self.counter += 1
        j = f"j{self.counter}"
        if kind < 6:
            over = self.pick(
                "range(n)",
                "range(3)",
                "xs",
                "range(a % 3)",
                "numbers(3)",
                "numbers(a % 4)",
                "[1, k, 2]",
                "w",
                "d.values()",
            )
            if over in ("xs", "d.values()"):
                over = f"list({over})"
            return [f"for {j} in {over}:", *self.block(depth + 1, True)]
        if kind == 6:
            return [f"{j} = 0", f"while {j} < n:", f"    {j} += 1", *self.block(depth + 1, True)]
        if kind == 7:
            caught = self.pick(
                "ValueError", "(KeyError, RuntimeError)", "Exception", "AssertionError"
            )
            lines = ["try:", *self.block(depth + 1), f"except {caught}:", *self.block(depth + 1)]
            return lines + (
                ["finally:", "    box.n = (box.n + 1) % 11"] if self.rng.random() < 0.3 else []
            )
        return [f"with {self.pick('box', 'other')}:", *self.block(depth + 1)]

    def source(self):
        lines = ["k = 0", "y = torch.ones(()) * 0.5", "p = Point(1, y)"]
        while self.budget > 0:
            lines += self.statement(0, False)
        lines.append(
            f"return {self.pick('k', 'y, k', 'box.n, y', 'p.x, p.y', '{1: k, 2: y}', 'y if a > 1 else v * 1')}"
        )
        return HEAD + "\n\ndef f(a, n):\n" + "".join(f"    {line}\n" for line in lines)


def generate(seed, size=5) -> Stateful:
    return Stateful(StateWriter(seed, size).source(), drawn_calls(seed, 0.7))
