"""Random programs over leaves that staged loops and branches carry, move and replace, and over their `.grad`.

`generate(seed)` gives the text of `f(a, b, n, m)`: vectors `a` and `b`, trip counts `n` and `m`, a parameter `p` that is captured, `leaf(x)` for a new leaf. The
leaves `w`, `u`, `v` begin as leaves, arguments or the parameter. Losses are computed of leaves where they are differentiated, so that nothing depends on
what a backward pass frees. `inputs()` are calls in which loops have no, one or many iterations and branches go both ways.
"""

import random

import torch

MORE = 10_000  # seeds of programs with hooks, views, `.data`, optimisers and leaves that are frozen
HEAD = """def f(a, b, n, m):
    g, s = torch.zeros(3, dtype=torch.float64), torch.zeros((), dtype=torch.float64)
"""


def leaf(x):
    return x.detach().clone().requires_grad_()


class Generator:
    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.left = 7
        self.count = 0
        self.leaves = ["w", "v", "u"][: self.rng.randrange(2, 4)]
        self.lists = self.rng.random() < 0.15
        self.more = seed >= MORE

    def pick(self, *options):
        return self.rng.choice(options)

    def vector(self):
        w, x = self.rng.choice(self.leaves), self.pick("a", "b", *self.leaves)
        return self.pick(
            w, f"{w} * 0.5", f"{w} - 0.1 * {x}", f"torch.sin({x})", "a * 0.3", "b + 0.2"
        )

    def loss(self):
        w, x, y = (
            self.rng.choice(self.leaves),
            self.rng.choice(self.leaves),
            self.pick("a", "b", "p"),
        )
        return self.pick(
            f"({w} ** 2).sum()",
            f"({w} * {x}).sum()",
            f"(torch.sin({w}) * {y}).sum()",
            f"({w} * {x} * {y}).sum()",
        )

    def test(self):
        k = f"k{self.count}" if self.count else "n"
        w = self.rng.choice(self.leaves)
        return self.pick(
            f"{w}.sum() > 0.1",
            "s > 0.2",
            f"{k} % 2 == 0",
            f"{k} < 1",
            f"{w}[0] < {self.rng.choice(self.leaves)}[1]",
        )

    def block(self, depth, loop):
        count, lines = self.count, []
        for _ in range(self.rng.randrange(1, 4)):
            lines += self.statement(depth, loop)
        self.count = count
        return ["    " + x for x in lines]

    def statement(self, depth, loop):
        self.left -= 1
        kinds = (
            ["backward"] * 4
            + ["again"] * 2
            + ["step"] * 2
            + ["swap", "other", "clear", "gradient", "field", "quiet", "keep"]
        )
        if depth < 3 and self.left > 0:
            kinds += ["for"] * 5 + ["if"] * 3 + ["asked"] * 2 + ["while"]
        if loop:
            kinds += ["exit"]
        if self.lists:
            kinds += ["append", "item"]
        if self.more:
            kinds += ["data", "view", "hook", "zero", "retain", "freeze"] * 2
        return getattr(self, self.rng.choice(kinds) + "_")(depth, loop)

    def backward_(self, depth, loop):
        w = self.rng.choice(self.leaves)
        loss = self.loss()
        return self.pick(
            [f"{loss}.backward()"],
            [f"if {w}.requires_grad:", f"    ({w} ** 2).sum().backward()"],
            [f"loss = {loss}", "if loss.requires_grad:", "    loss.backward()"],
        )

    def again_(self, depth, loop):
        return [
            f"{self.rng.choice(self.leaves)} = "
            + self.pick("leaf({})", "leaf({})", "leaf({})", "({}).detach()").format(self.vector())
        ]

    def step_(self, depth, loop):
        w = self.rng.choice(self.leaves)
        step = self.pick(
            [f"{w} = leaf({w} - 0.1 * {w}.grad)"],
            ["with torch.no_grad():", f"    {w} -= 0.1 * {w}.grad"],
            ["with torch.no_grad():", f"    {w}.sub_(0.1 * {w}.grad)", f"    {w}.grad = None"],
            [f"{w}.grad.zero_()"],
            [f"{w}.grad.mul_(0.5)"],
            [f"g = g + {w}.grad"],
            [f"g = {w}.grad"],
            [f"o = torch.optim.SGD([{w}], lr=0.1)", "o.step()", "o.zero_grad()"],
        )
        return [f"if {w}.grad is not None:", *("    " + x for x in step)]

    def swap_(self, depth, loop):
        w, x = self.rng.sample(self.leaves, 2)
        return [f"{w}, {x} = {x}, {w}"]

    def other_(self, depth, loop):
        w, x = self.rng.choice(self.leaves), self.pick("a", "b", "p", *self.leaves)
        return [f"{w} = {x}"]

    def keep_(self, depth, loop):
        if "best" not in self.leaves and depth == 0:
            self.leaves.append("best")
            return [f"best = {self.rng.choice(self.leaves[:2])}"]
        return [f"{'best' if 'best' in self.leaves else 'g'} = {self.rng.choice(self.leaves[:2])}"]

    def clear_(self, depth, loop):
        return [f"{self.rng.choice(self.leaves)}.grad = None"]

    def gradient_(self, depth, loop):
        w = self.rng.choice(self.leaves)
        more = self.pick([], [f"{w} = leaf({w} - 0.1 * g)"], [f"{w}.grad = g"])
        inner = [
            f"(g,) = torch.autograd.grad(({w} * {w} * {self.pick('a', 'b', 'p')}).sum(), {w})",
            *more,
        ]
        return [f"if {w}.requires_grad:", *("    " + x for x in inner)]

    def field_(self, depth, loop):
        w, x = self.rng.sample(self.leaves, 2)
        return self.pick(
            [f"{w}.grad = {x}.grad"],
            [f"if {w}.grad is not None:", f"    s = s + {w}.grad.sum()"],
            [f"s = s + {self.loss()}.detach()"],
        )

    def quiet_(self, depth, loop):
        w, x = self.rng.choice(self.leaves), self.rng.choice(self.leaves)
        return [
            "with torch.no_grad():",
            f"    {w}." + self.pick("mul_(0.9)", f"add_(0.1 * {x})", f"copy_({x})"),
        ]

    def data_(self, depth, loop):
        w = self.rng.choice(self.leaves)
        return [self.pick(f"{w}.data.mul_(0.9)", f"{w}.data[0] = 0.5", f"{w}.detach().add_(0.1)")]

    def view_(self, depth, loop):
        w, x = self.rng.choice(self.leaves), self.rng.choice(self.leaves)
        loss = self.pick(f"({w}[1:] ** 2).sum()", f"{w}[0] * {x}[1]", f"({w}.view(3) * {x}).sum()")
        return [f"loss = {loss}", "if loss.requires_grad:", "    loss.backward()"]

    def hook_(self, depth, loop):
        w = self.rng.choice(self.leaves)
        hook = self.pick("lambda x: x * 0.5", "lambda x: None", "lambda x: x + 1")
        return [f"if {w}.requires_grad:", f"    {w}.register_hook({hook})"]

    def zero_(self, depth, loop):
        w = self.rng.choice(self.leaves)
        step = self.pick([], ["    o.step()"])
        kind = self.pick("SGD([{}], lr=0.1, momentum=0.9)", "Adam([{}], lr=0.1)").format(w)
        none = self.pick("False", "True")
        return [
            f"if {w}.is_leaf:",
            f"    o = torch.optim.{kind}",
            *step,
            f"    o.zero_grad(set_to_none={none})",
        ]

    def retain_(self, depth, loop):
        w, x = self.rng.choice(self.leaves), self.pick("a", "b", "p")
        inner = [f"y = {w} * {x}", "y.retain_grad()", "(y ** 2).sum().backward()", "g = y.grad"]
        return [f"if {w}.requires_grad:", *("    " + x for x in inner)]

    def freeze_(self, depth, loop):
        w = self.rng.choice(self.leaves)
        return [f"if {w}.is_leaf:", f"    {w}.requires_grad_({self.pick('False', 'True')})"]

    def append_(self, depth, loop):
        return [f"xs.append({self.rng.choice(self.leaves)})"]

    def item_(self, depth, loop):
        return [f"{self.rng.choice(self.leaves)} = xs[{self.pick(-1, 0)}]"]

    def exit_(self, depth, loop):
        return [f"if {self.test()}:", "    " + self.pick("break", "break", "continue")]

    def if_(self, depth, loop):
        lines = [f"if {self.test()}:", *self.block(depth + 1, loop)]
        if self.rng.random() < 0.5:
            lines += ["else:", *self.block(depth + 1, loop)]
        return lines

    def asked_(self, depth, loop):
        w = self.rng.choice(self.leaves)
        return [
            f"if {w}." + self.pick("requires_grad:", "grad is not None:", "grad is None:"),
            *self.block(depth + 1, loop),
        ]

    def for_(self, depth, loop):
        self.count += 1
        return [
            f"for k{self.count} in range({self.pick('n', 'm', '2')}):",
            *self.block(depth + 1, True),
        ]

    def while_(self, depth, loop):
        self.count += 1
        k = f"k{self.count}"
        return [
            f"{k} = 0",
            f"while {k} < {self.pick('n', 'm')} and {self.test()}:",
            f"    {k} = {k} + 1",
            *self.block(depth + 1, True),
        ]

    def program(self):
        lines = [
            f"{x} = {self.pick('leaf(a)', 'leaf(b)', 'leaf(a * b)', 'leaf(b * 2)', 'a', 'b', 'p')}"
            for x in self.leaves
        ]
        lines += ["xs = [w]"] if self.lists else []
        while self.left > 0:
            lines += self.statement(0, False)
        results = ", ".join([*self.leaves, "g", "s", *(["xs"] if self.lists else [])])
        return HEAD + "".join(f"    {x}\n" for x in lines) + f"    return {results}\n"


def generate(seed):
    return Generator(seed).program()


def inputs():
    """(a, b, n, m) of several calls, anew each time."""
    rng = torch.Generator().manual_seed(7)
    found = []
    for n, m, one, other in (
        (2, 1, True, True),
        (0, 0, True, True),
        (1, 3, True, False),
        (3, 2, True, False),
        (3, 0, True, True),
    ):
        a, b = (torch.randn(3, generator=rng, dtype=torch.float64) for _ in "ab")
        found.append(
            (a.requires_grad_(one), b.requires_grad_(other), torch.tensor(n), torch.tensor(m))
        )
    return found
