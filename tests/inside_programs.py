"""Random programs that take gradients inside: leaves, optimisers, accumulated ``.grad``, higher orders, under staged control flow.

`generate(seed)` gives the text of `f(s, v, w, n)` over `s` (scalar), `v` (vector of 3), `w` (3 by 3) and `n` (a trip count, a tensor). The first letter of a
name tells its kind: s scalar, v vector, k counter, p leaf, l list of vectors. Gradients keep what they went through: where a branch or loop frees
it is decided otherwise than in eager PyTorch, see `docs/limits/gradients.md`.
"""

from tests import gradient_programs
from tests.gradient_programs import arguments


class Generator(gradient_programs.Generator):
    def __init__(self, seed):
        super().__init__(seed, size=9)

    def name(self, kind):
        self.count += 1
        return f"{kind}{self.count}"

    def of(self, scope, kinds):
        return [x for x in scope if x[0] in kinds]

    def scalar(self, scope, deep=2):
        if deep == 0 or self.rng.random() < 0.25:
            return self.rng.choice(self.of(scope, "s"))
        a, v = self.scalar(scope, deep - 1), self.vector(scope, deep - 1)
        return self.pick(
            f"({a} * {a})",
            f"{v}.sum()",
            f"({v} @ {v})",
            f"{v}[{self.rng.randrange(3)}]",
            f"torch.sin({a})",
            f"torch.tanh({v}).mean()",
        )

    def vector(self, scope, deep=2):
        if deep == 0 or self.rng.random() < 0.25:
            return self.rng.choice(self.of(scope, "vp"))
        a, b, s = (
            self.vector(scope, deep - 1),
            self.vector(scope, deep - 1),
            self.scalar(scope, deep - 1),
        )
        options = [
            f"({a} + {b})",
            f"({a} * {b})",
            f"({s} * {a})",
            f"(w @ {a})",
            f"torch.sin({a})",
            f"{a}.flip(0)",
            f"({a} if {s} > 0.2 else {b})",
            f"{a}.detach()",
        ]
        if lists := self.of(scope, "l"):
            options += [f"{lists[0]}[-1]", f"torch.stack({lists[0]}).sum(0)"]
        return self.rng.choice(options)

    def test(self, scope):
        options = [f"{self.scalar(scope, 1)} > 0.1", f"{self.vector(scope, 1)}.sum() < 0.5"]
        if k := self.of(scope, "k"):
            options += [f"{self.rng.choice(k)} % 2 == 0", f"{self.rng.choice(k)} < 1"]
        return self.rng.choice(options)

    def block(self, scope, depth, loop):
        inner, lines = list(scope), []
        for _ in range(self.rng.randrange(1, 4)):
            lines += self.statement(inner, depth, loop)
        return ["    " + x for x in lines]

    def statement(self, scope, depth, loop):
        self.left -= 1
        kinds = ["assign"] * 3 + ["grad"] * 3 + ["backward"] * 2 + ["leaf", "write", "quiet"]
        if depth < 3 and self.left > 0:
            kinds += ["if"] * 3 + ["for"] * 2 + ["while", "match", "call"]
        if depth:
            kinds += ["exit"]
        if self.of(scope, "l"):
            kinds += ["append"]
        if depth < 2:
            kinds += ["optimise", "second"]
        return getattr(self, self.rng.choice(kinds) + "_")(scope, depth, loop)

    def target(self, scope, kind):
        names = [x for x in self.of(scope, kind) if x not in ("s", "v")]
        made = self.rng.choice(names) if names and self.rng.random() < 0.7 else self.name(kind)
        return made

    def assign_(self, scope, depth, loop):
        kind = self.pick("s", "v")
        value = (
            f"torch.tanh({self.scalar(scope)})"
            if kind == "s"
            else f"torch.sin({self.vector(scope)})"
        )
        name = self.target(scope, kind)
        if name not in scope:
            scope.append(name)
        return [f"{name} = {value}"]

    def leaf_(self, scope, depth, loop):
        name, source = self.name("p"), self.vector(scope, 1)
        scope.append(name)
        return [f"{name} = {source}.detach().clone().requires_grad_()"]

    def loss(self, scope, p):
        return f"(torch.sin({self.vector(scope, 2)}) * {p}).sum() + ({p} * {p} * {self.scalar(scope, 1)}).sum()"

    def grad_(self, scope, depth, loop):
        p = self.name("p")
        v = self.target(scope, "v")
        t = self.name("s")
        lines = [f"{p} = {self.vector(scope, 0)}.detach().clone().requires_grad_()"]
        inner = [*scope, p]
        lines += [f"{t} = {self.loss(inner, p)}"]
        if self.rng.random() < 0.5 and depth < 3:
            lines += [f"if {self.test(scope)}:", f"    {t} = {t} * {self.scalar(inner, 1)}"]
        how = self.pick(", retain_graph=True", ", create_graph=True")
        lines += [f"({v},) = torch.autograd.grad({t}, {p}{how})", f"{v} = torch.tanh({v})"]
        if v not in scope:
            scope.append(v)
        return lines

    def second_(self, scope, depth, loop):
        p, g, h = self.name("p"), self.name("v"), self.target(scope, "v")
        lines = [
            f"{p} = {self.vector(scope, 0)}.detach().clone().requires_grad_()",
            f"t{p} = {self.loss([*scope, p], p)}",
        ]
        lines += [f"if {self.test(scope)}:", f"    t{p} = t{p} * torch.sin({p}).sum()"]
        lines += [
            f"({g},) = torch.autograd.grad(t{p}, {p}, create_graph=True)",
            f"({h},) = torch.autograd.grad(({g} * {g}).sum(), {p}, retain_graph=True)",
            f"{h} = torch.tanh({h})",
        ]
        if h not in scope:
            scope.append(h)
        return lines

    def backward_(self, scope, depth, loop):
        ps = self.of(scope, "p")
        p = self.rng.choice(ps) if ps and self.rng.random() < 0.8 else self.name("p")
        lines = []
        if p not in scope:
            lines = [f"{p} = {self.vector(scope, 0)}.detach().clone().requires_grad_()"]
            scope.append(p)
        v = self.target(scope, "v")
        lines += [
            f"({self.loss(scope, p)}).backward(retain_graph=True)",
            f"{v} = torch.tanh({p}.grad)",
        ]
        if self.rng.random() < 0.5:
            lines += [f"{p}.grad = None"]
        if v not in scope:
            scope.append(v)
        return lines

    def optimise_(self, scope, depth, loop):
        p, o, k = self.name("p"), self.name("o"), self.name("k")
        kind = self.pick(
            "SGD([{}], lr=0.1)", "SGD([{}], lr=0.1, momentum=0.5)", "Adam([{}], lr=0.05)"
        ).format(p)
        scope.append(p)
        lines = [
            f"{p} = {self.vector(scope[:-1], 0)}.detach().clone().requires_grad_()",
            f"{o} = torch.optim.{kind}",
            f"for {k} in range(n):",
        ]
        inner = [*scope, k]
        lines += [f"    {o}.zero_grad()", f"    t{p} = {self.loss(inner, p)}"]
        if self.rng.random() < 0.5:
            lines += [f"    if {self.test(inner)}:", f"        t{p} = t{p} * 0.5"]
        lines += [f"    t{p}.backward(retain_graph=True)"]
        if self.rng.random() < 0.3:
            lines += [f"    if {self.test(inner)}:", "        " + self.pick("break", "continue")]
        lines += [f"    {o}.step()"]
        return lines

    def write_(self, scope, depth, loop):
        names = [x for x in self.of(scope, "v") if x != "v"]
        if not names:
            return self.assign_(scope, depth, loop)
        v, i = self.rng.choice(names), self.rng.randrange(3)
        return [
            f"{v} = {v}.clone()",
            self.pick(
                f"{v}[{i}] = torch.sin({self.scalar(scope, 1)})",
                f"{v} *= 0.5",
                f"{v}[1:].mul_(s)",
                f"{v}[{i}] += 0.1 * s",
            ),
        ]

    def quiet_(self, scope, depth, loop):
        ps = self.of(scope, "p")
        if not ps or self.rng.random() < 0.3:
            v = self.target(scope, "v")
            if v not in scope:
                scope.append(v)
            return [
                "with torch.no_grad():",
                f"    {v} = torch.sin({self.vector([x for x in scope if x != v], 1)})",
            ]
        p = self.rng.choice(ps)
        if self.rng.random() < 0.3:
            return [f"{p}.data.mul_(0.9)"]
        return ["with torch.no_grad():", f"    {p}.sub_(0.1 * torch.sin({self.vector(scope, 1)}))"]

    def append_(self, scope, depth, loop):
        return [
            f"{self.rng.choice(self.of(scope, 'l'))}.append(torch.sin({self.vector(scope, 1)} * v))"
        ]

    def exit_(self, scope, depth, loop):
        kind = self.rng.choice(["return"] + ["break", "continue"] * 2 * bool(loop))
        return [
            f"if {self.test(scope)}:",
            f"    return {self.result(scope)}" if kind == "return" else f"    {kind}",
        ]

    def result(self, scope):
        return f"({self.vector(scope, 1)}, {self.scalar(scope, 1)})"

    def call_(self, scope, depth, loop):
        h, v = self.name("h"), self.target(scope, "v")
        old, self.left = self.left, min(self.left, 3)
        lines = [
            self.pick("", "@tg.function"),
            f"def {h}(v, s, w=w, n=n):",
            *self.block(["s", "v"], 2, False),
            "    return torch.sin(v * s)",
        ]
        self.left = old
        lines = [
            x if "return (" not in x else x[: x.index("return")] + "return v.cos()"
            for x in lines
            if x
        ]
        lines += [f"{v} = {h}({self.vector(scope, 1)}, {self.scalar(scope, 1)})"]
        if v not in scope:
            scope.append(v)
        return lines

    def if_(self, scope, depth, loop):
        lines = [f"if {self.test(scope)}:", *self.block(scope, depth + 1, loop)]
        if self.rng.random() < 0.7:
            lines += ["else:", *self.block(scope, depth + 1, loop)]
        return lines

    def match_(self, scope, depth, loop):
        k = self.of(scope, "k")
        lines = [f"match {self.rng.choice(k) if k and self.rng.random() < 0.5 else 'n'}:"]
        for case in ("0", "1 | 3", "_"):
            lines += [
                f"    case {case}:",
                *("    " + x for x in self.block(scope, depth + 1, loop)),
            ]
        return lines

    def for_(self, scope, depth, loop):
        k = self.name("k")
        return [f"for {k} in range(n):", *self.block([*scope, k], depth + 1, True)]

    def while_(self, scope, depth, loop):
        k = self.name("k")
        more = self.pick("", f" and {self.test(scope)}")
        return [
            f"{k} = 0",
            f"while {k} < n{more}:",
            f"    {k} = {k} + 1",
            *self.block([*scope, k], depth + 1, True),
        ]

    def program(self):
        return self.function([])


def generate(seed):
    return Generator(seed).program(), arguments(seed)
