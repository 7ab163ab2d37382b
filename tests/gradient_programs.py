"""Random differentiable programs: smooth arithmetic under staged control flow.

`generate(seed)` makes one function over `s` (scalar), `v` (vector of 3), `w` (3 by 3) and `n` (a trip count, a tensor).
A helper may be a function of its own graph. The first letter of a variable tells its kind: s scalar, v vector, k counter, l list of vectors. Every value passes sin or
tanh before it is kept, so that programs stay in a range where derivatives can be compared; tests look at values,
so kinks have measure zero. Statements nest three deep.
"""

import random

import torch


class Generator:
    def __init__(self, seed, size=10):
        self.rng = random.Random(seed)
        self.left = size
        self.count = 0
        self.helpers = []

    def pick(self, *options):
        return self.rng.choice(options)

    def scalar(self, scope, deep=2):
        if deep == 0 or self.rng.random() < 0.25:
            return self.rng.choice([x for x in scope if x[0] == "s"])
        a, b = self.scalar(scope, deep - 1), self.scalar(scope, deep - 1)
        v = self.vector(scope, deep - 1)
        return self.pick(
            f"({a} * {b})", f"({a} + {b})", f"({a} - 0.5 * {b})", f"{v}.sum()", f"{v}[{self.rng.randrange(3)}]",
            f"({v} @ {v})", f"torch.exp(-{a} * {a})", f"({a} / (2 + {b} * {b}))", f"torch.where({a} > 0.3, {a}, {b})",
        )  # fmt: skip

    def vector(self, scope, deep=2):
        if deep == 0 or self.rng.random() < 0.25:
            return self.rng.choice([x for x in scope if x[0] == "v"])
        a, b, s = (
            self.vector(scope, deep - 1),
            self.vector(scope, deep - 1),
            self.scalar(scope, deep - 1),
        )
        options = [
            f"({a} + {b})", f"({a} * {b})", f"({s} * {a})", f"(w @ {a})", f"torch.softmax({a}, 0)", f"{a}.flip(0)",
            f"torch.stack([{s}, {a}[0], {b}[1]])", f"torch.cat([{a}[1:], {b}[:1]])", f"({a} - {a}.mean())",
        ]  # fmt: skip
        lists = [x for x in scope if x[0] == "l"]
        options += [
            f"torch.func.grad(lambda u: torch.sin(u * {a}).sum())({b})",
            f"({a} if {s} > 0.2 else {b})",
        ]
        if lists:
            options += [f"{lists[0]}[-1]", f"torch.stack({lists[0]}).sum(0)"]
        if self.helpers:
            options += [f"{self.rng.choice(self.helpers)}({a}, {s})"]
        return self.rng.choice(options)

    def test(self, scope):
        k = [x for x in scope if x[0] == "k"]
        options = [
            f"{self.scalar(scope, 1)} > 0.1",
            f"{self.vector(scope, 1)}.sum() < {self.scalar(scope, 0)}",
        ]
        if k:
            options += [f"{self.rng.choice(k)} % 2 == 0", f"{self.rng.choice(k)} < 1"]
        test = self.rng.choice(options)
        return self.pick(test, test, f"not ({test})", f"({test}) and {self.rng.choice(options)}")

    def block(self, scope, depth, loop):
        inner, lines = list(scope), []
        for _ in range(self.rng.randrange(1, 4)):
            lines += self.statement(inner, depth, loop)
        return ["    " + x for x in lines]

    def statement(self, scope, depth, loop):
        self.left -= 1
        kinds = ["assign"] * 4 + ["write", "swap"]
        if depth < 3 and self.left > 0:
            kinds += ["if"] * 3 + ["for"] * 2 + ["while"] * 2 + ["match", "attempt"]
        if depth:
            kinds += ["exit"]
        if any(x[0] == "l" for x in scope):
            kinds += ["append"] * 2 + ["item"]
        return getattr(self, self.rng.choice(kinds) + "_")(scope, depth, loop)

    def assign_(self, scope, depth, loop):
        if self.rng.random() < 0.5:
            name, value = self.target(scope, "s"), f"torch.tanh({self.scalar(scope)})"
        else:
            name, value = self.target(scope, "v"), f"torch.sin({self.vector(scope)})"
        scope.append(name) if name not in scope else None
        return [f"{name} = {value}"]

    def target(self, scope, kind):
        names = [x for x in scope if x[0] == kind and x not in ("s", "v")]
        if names and self.rng.random() < 0.7:
            return self.rng.choice(names)
        self.count += 1
        return f"{kind}{self.count}"

    def write_(self, scope, depth, loop):
        names = [x for x in scope if x[0] == "v" and x != "v"]
        if not names:
            return self.assign_(scope, depth, loop)
        v, i = self.rng.choice(names), self.rng.randrange(3)
        fresh = f"{v} = {v}.clone()"
        return [
            fresh,
            self.pick(
                f"{v}[{i}] = torch.sin({self.scalar(scope, 1)})",
                f"{v} *= 0.5",
                f"{v}[1:].mul_(s)",
                f"{v}.view(3)[{i}] = torch.tanh({self.scalar(scope, 1)})",
                f"{v}[{i}] += 0.1 * s",
            ),
        ]

    def item_(self, scope, depth, loop):
        name = self.rng.choice([x for x in scope if x[0] == "l"])
        return [f"{name}[{self.pick(0, -1)}] = torch.cos({self.vector(scope, 1)})"]

    def match_(self, scope, depth, loop):
        k = [x for x in scope if x[0] == "k"]
        lines = [f"match {self.rng.choice(k) if k and self.rng.random() < 0.5 else 'n'}:"]
        for case in ("0", "1 | 3", "_"):
            lines += [
                f"    case {case}:",
                *("    " + x for x in self.block(scope, depth + 1, loop)),
            ]
        return lines

    def attempt_(self, scope, depth, loop):
        """An exception at run time, caught; lists stay as they are."""
        scope = [x for x in scope if x[0] != "l"]
        left = self.block(scope, depth + 1, False)
        return [
            "try:",
            *left,
            f"    if {self.test(scope)}:",
            "        raise ValueError('caught')",
            "except ValueError:",
            *self.block(scope, depth + 1, False),
        ]

    def swap_(self, scope, depth, loop):
        names = [x for x in scope if x[0] == "v" and x != "v"]
        if len(names) < 2:
            return self.assign_(scope, depth, loop)
        a, b = self.rng.sample(names, 2)
        return [f"{a}, {b} = {b}, {a}"]

    def append_(self, scope, depth, loop):
        return [
            f"{self.rng.choice([x for x in scope if x[0] == 'l'])}.append(torch.sin({self.vector(scope, 1)}))"
        ]

    def exit_(self, scope, depth, loop):
        kinds = ["return"] + ["break", "continue"] * 2 * bool(loop)
        kind = self.rng.choice(kinds)
        lines = [f"return {self.result(scope)}"] if kind == "return" else [kind]
        return [f"if {self.test(scope)}:", "    " + lines[0]]

    def result(self, scope):
        return f"({self.vector(scope, 1)}, {self.scalar(scope, 1)})"

    def if_(self, scope, depth, loop):
        lines = [f"if {self.test(scope)}:", *self.block(scope, depth + 1, loop)]
        if self.rng.random() < 0.7:
            lines += ["else:", *self.block(scope, depth + 1, loop)]
        return lines

    def for_(self, scope, depth, loop):
        self.count += 1
        k = f"k{self.count}"
        over = self.pick(f"for {k} in range(n):", f"for {k} in range(n % 2 + 1):")
        if self.rng.random() < 0.2:
            row = f"v{self.count}"
            return [f"for {row} in w:", *self.block([*scope, row], depth + 1, True)]
        return [over, *self.block([*scope, k], depth + 1, True)]

    def while_(self, scope, depth, loop):
        self.count += 1
        k = f"k{self.count}"
        test = f"{k} < n" + self.pick("", f" and {self.test(scope)}")
        return [
            f"{k} = 0",
            f"while {test}:",
            f"    {k} = {k} + 1",
            *self.block([*scope, k], depth + 1, True),
        ]

    def program(self):
        if self.rng.random() < 0.4:
            self.helpers = []
            body = self.block(["s", "v"], 2, False)
            first = ["def helper(v, s):", "    w, n = torch.diag(v), torch.tensor(2)"]
            text = [*first, *body, "    return torch.sin(v * s)"]
            text = [
                line if "return (" not in line else line[: line.index("return")] + "return v.cos()"
                for line in text
            ]
            lines = [self.pick("", "@tg.function"), *text, ""]
            self.helpers = ["helper"]
        else:
            lines = []
        return self.function(lines)

    def function(self, before):
        """The text of `f`, behind what stands before it."""
        scope, lines = ["s", "v"], [*before, "def f(s, v, w, n):"]
        if self.rng.random() < 0.5:
            scope.append("l0")
            lines += ["    l0 = [v.cos()]"]
        body = self.block(scope, 0, False) + self.block(scope, 0, False)
        known = [x for x in scope if x in ("s", "v", "l0")]
        return "\n".join([*lines, *body, f"    return {self.result(known)}"]) + "\n"


def arguments(seed):
    rng = torch.Generator().manual_seed(seed)
    args = [torch.randn(s, generator=rng, dtype=torch.float64) for s in ((), (3,), (3, 3))]
    return [*args, torch.tensor(seed % 4)]


def generate(seed):
    """(source, arguments) of a program."""
    return Generator(seed).program(), arguments(seed)
