"""Random programs about names: tensors, lists, dicts and objects that get several names, in branches and loops, and change.

`generate(seed)` makes a module of one function `f(a, n)` with local vectors t1 to t4, lists l1 and l2, dicts d1 and d2 and
objects c1 and c2 of vectors, and an outer vector, list and object. All vectors have three elements, so any name may be any of them.
Invariants: loops end; numbers stay small; containers keep their length.
"""

from tests.program_writer import Stateful, Writer, drawn_calls

HEAD = """
class Cell:
    def __init__(self, t):
        self.t, self.n = t, 1

    def put(self, t):
        self.t = t
        return self

    def grow(self):
        self.t += 1
        self.n = (self.n + 1) % 5


w = torch.zeros(3)
z = [torch.ones(3), torch.ones(3) * 2]
box = Cell(torch.ones(3) * 3)


def swap(c, e):
    c.t, e.t = e.t, c.t


def walk(t, k):
    i = 0
    while i < k:
        t[i % 3] += 1
        yield t
        i += 1
"""

SEEN = ("w", "z", "box")
START = """
t1, t2, t3, t4 = w, w * 1 + 1, torch.ones(3), z[0]
l1, l2 = [t1, t2], [t3, t4]
d1, d2 = {'p': t1, 'q': t3}, {'p': t2, 'q': t2}
c1, c2 = Cell(t2), Cell(t4)
k = 0
""".strip().splitlines()
RETURN = "return [t1 * 1, t2 * 1, t3 * 1, t4 * 1, l1[0] * 1, l1[1] * 1, l2[0] * 1, d1['p'] * 1, d2['q'] * 1, c1.t * 1, c2.t * 1, c1.n, k]"  # fmt: skip


class AliasWriter(Writer):
    """Names of vectors that are bound anew, and changes of what they name."""

    def name(self):
        """A variable that holds a vector."""
        return self.pick("t1", "t2", "t3", "t4", "t1", "t2", "l1[0]", "l1[1]", "l2[0]", "d1['p']", "d1['q']", "d2['p']", "c1.t", "c2.t", "box.t", "z[1]")  # fmt: skip

    def local(self):
        return self.pick("t1", "t2", "t3", "t4")

    def number(self):
        return self.pick("a", "n", "k", "a % 3", "c1.n", "k + 1", "2")

    def test(self):
        x = self.number()
        return self.pick(f"{x} > {self.rng.randrange(4)}", f"{x} % 2 == 0", f"{self.name()}.sum() > {self.rng.randrange(1, 9)}",
                         f"{self.name()}[0] < {self.name()}[1]")  # fmt: skip

    def value(self):
        t = self.name()
        return self.pick(t, t, t, f"{t} * 0.5 + 1", f"{t} * 0.5", "w", "torch.ones(3)", f"({t} if {self.test()} else {self.name()})",
                         f"{t}[:]", f"{t}.view(3)")  # fmt: skip

    def bind(self):
        """A name becomes another one of something."""
        return self.pick(
            f"{self.local()} = {self.value()}", f"{self.local()} = {self.value()}", f"{self.name()} = {self.value()}",
            "t1, t2 = t2, t1", "t2, t3, t4 = t3, t4, t2", f"{self.name()}, t1 = t1, {self.name()}", "l1, l2 = l2, l1", "d1, d2 = d2, d1",
            "c1, c2 = c2, c1", "swap(c1, c2)", f"c1.put({self.name()})", f"c2 = Cell({self.name()})", f"l1 = [{self.name()}, t1]",
            f"d1 = {{'p': {self.name()}, 'q': t2}}", "l2 = l1", "c2 = c1", "t1 = c1.put(t2).t",
        )  # fmt: skip

    def change(self):
        """What a name holds changes in place."""
        t, x = self.name(), self.number()
        return self.pick(
            f"{t} += 1", f"{t} *= 0.5", f"{t}[{x} % 3] = 2", f"{t}[0] += 1", f"{t}.add_(1)", f"{t}[1:] += 0.5", f"{t}[:2] *= 0.5",
            f"{t}.zero_()", f"{t}.copy_({self.name()})", f"r = {t}[1:]; r += 1", f"{t}[{x} % 3] += {self.name()}[0] * 0.5", "c1.grow()",
            "k = (k + 1) % 7", "c2.n = (c2.n + k) % 5",
        )  # fmt: skip

    def statement(self, depth, loop):
        self.budget -= 1
        r = self.rng.random()
        if depth < 3 and self.budget > 0 and r < 0.4:
            return self.nest(depth, loop)
        if r < 0.44 and loop:
            return [f"if {self.test()}:", f"    {self.pick('break', 'continue')}"]
        if r < 0.48:
            return [f"assert {self.name()}.sum() < {self.pick(5, 20, 60)}, 'large'"]
        return [self.bind() if r < 0.75 else self.change()]

    def nest(self, depth, loop):
        kind = self.rng.randrange(8)
        self.counter += 1
        j = f"j{self.counter}"
        body = self.block(depth + 1, True if kind > 2 else loop)
        if kind < 3:
            return [f"if {self.test()}:", *body, *(["else:", *self.block(depth + 1, loop)] if self.rng.random() < 0.5 else [])]  # fmt: skip
        if kind < 6:
            return [f"for {j} in {self.pick('range(n)', 'range(n)', 'range(a % 3)', 'range(2)')}:", *body]  # fmt: skip
        if kind == 6:
            return [f"for {j} in walk({self.name()}, {self.pick('n', '2')}):", *body]
        caught = self.pick("AssertionError", "Exception", "ValueError")
        return [
            "try:",
            *self.block(depth + 1),
            f"except {caught}:",
            *self.block(depth + 1),
        ]

    def source(self):
        lines = list(START)
        while self.budget > 0:
            lines += self.statement(0, False)
        return HEAD + "\n\ndef f(a, n):\n" + "".join(f"    {line}\n" for line in [*lines, RETURN])


def generate(seed, size=7) -> Stateful:
    return Stateful(AliasWriter(seed, size).source(), drawn_calls(seed, 0.8))
