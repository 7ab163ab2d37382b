"""Random loops over elementwise state: of several dtypes, counted, masked, with numbers that elements are computed of."""

import random
import textwrap

SHAPES = [(64,), (100,), (1000,), (7, 33), (4, 5, 16), (128, 3), (2, 200), (4100,)]
STATE = ["float32"] * 4 + ["float64", "int64", "int32", "float16", "bfloat16", "uint8"]
LOOPS = {
    "counted": ("", "while i < n:", ""),
    "range": ("", "for i in range(n):", ""),
    "on tensors": ("j = torch.zeros_like(n)", "while j < n:", ""),
    "any": ("active = {mask}", "while i < n and active.any():", "active"),
    "any of tensors": ("active = {mask}", "while (i < n) & active.any():", "active"),
    "any first": ("active = {mask}", "while active.any() and i < n:", "active"),
    "not all": ("done = ~{mask}", "while not done.all() and i < n:", "~done"),
    "break of any": ("active = {mask}", "for i in range(n):", "active"),
    "break of all": ("done = ~{mask}", "while i < n:", "~done"),
    "computed": ("t = torch.arange(s0.numel()).reshape(s0.shape) % 7", "while (t < {limit}).any() and i < n:", "(t < 5)"),
}  # fmt: skip


class Writer:
    """One program: ``source`` of ``f``, the dtypes of its state by name, and its other tensors' dtypes and shapes."""

    def __init__(self, seed):
        self.r = r = random.Random(seed)
        self.shape = r.choice(SHAPES)
        self.state = {f"s{i}": r.choice(STATE) for i in range(r.randint(1, 4))}
        shapes = [self.shape] * 3 + [self.shape[-1:], (), (1,) * len(self.shape), (*self.shape[:-1], 1)]  # fmt: skip
        self.others = {f"c{i}": (r.choice(["float32", "float64", "int64", "bool"]), r.choice(shapes)) for i in range(r.randint(0, 2))}  # fmt: skip
        self.names = [*self.state, *self.others]
        self.numbers = ["k"] if r.random() < 0.6 else []
        self.kind = r.choice(list(LOOPS))
        self.source = self._source()

    def _tensor(self):
        return self.r.choice(self.names)

    def _atom(self):
        choice = self.r.random()
        if choice < 0.2:
            return self.r.choice(["1", "2", "0.5", "-1", "1.25"])
        return "k" if self.numbers and choice < 0.35 else self._tensor()

    def _expression(self, depth):
        r, t = self.r, self._tensor
        if depth == 0 or r.random() < 0.15:
            return self._atom()
        return r.choice([
            lambda: f"({self._expression(depth - 1)} {r.choice('+-*')} {self._expression(depth - 1)})",
            lambda: f"({self._expression(depth - 1)} / (1 + {t()}))",
            lambda: f"({t()} {r.choice(['//', '%'])} {r.choice(['2', '3'])})",
            lambda: f"torch.where({t()} > {r.choice(['0', t()])}, {t()}, {r.choice([t(), '1'])})",
            lambda: f"(-{t()})",
            lambda: f"torch.sin({t()})",
            lambda: f"torch.{r.choice(['minimum', 'maximum'])}({t()}, {t()})",
            lambda: f"({t()} > {self._atom()})",
        ])()  # fmt: skip

    def _following(self, name, dtype):
        wide = f"({self._expression(self.r.randint(1, 3))} + 0 * {name})"
        if dtype == "uint8":
            return f"{wide}.to(torch.int64).remainder(200).to(torch.uint8)"
        return f"{wide}.clamp(-100, 100).to(torch.{dtype})"

    def _body(self, mask):
        r, lines = self.r, []
        for name, dtype in self.state.items():
            new = self._following(name, dtype)
            if r.random() < 0.85:
                lines.append(f"{name} = " + (f"torch.where({mask}, {new}, {name})" if mask and r.random() < 0.85 else new))  # fmt: skip
        limit = r.choice(["3", "10", "40"])
        if mask == "active":
            lines.append(r.choice([f"active = active & (s0 < {limit})", f"active = s0 < {limit}", f"active = active & (s0 < {limit}) & (s0 != i)"]))  # fmt: skip
        if mask == "~done":
            lines.append(r.choice([f"done = done | (s0 > {limit})", f"done = done | (s0 > {limit}) | (i > 6)"]))  # fmt: skip
        if mask == "(t < 5)":
            lines.append(r.choice(["t = torch.where(t < 5, t + 1, t)", "t = t + (t < 5)", "t = t + 1"]))  # fmt: skip
        if self.numbers:
            lines.append(r.choice(["k = k + 1", "k = k * 2 + i", "k = (k + 3) % 7", "k = i if i % 2 == 0 else k"]))  # fmt: skip
        lines += ["i = i + 1"] * ("range" not in LOOPS[self.kind][1]) + ["j = j + 1"] * (self.kind == "on tensors")  # fmt: skip
        if self.kind.startswith("break"):
            lines += [f"if {'done.all()' if mask == '~done' else 'not active.any()'}:", "    break"]
        return lines

    def _source(self):
        r = self.r
        before, head, mask = LOOPS[self.kind]
        fills = {"mask": r.choice(["torch.ones_like(s0, dtype=torch.bool)", "(s0 > 0)"]), "limit": r.choice(["5", "n"])}  # fmt: skip
        lines = [before.format(**fills)] if before else []
        if self.numbers:
            lines.append(r.choice(["k = 0", "k = torch.zeros((), dtype=torch.int64)"]))
        lines += ["i = 0", head.format(**fills), *("    " + line for line in self._body(mask))]
        results = [*self.state, *self.numbers, "i", *(before.split()[:1] if mask else [])]
        lines.append(f"return {', '.join(results)}")
        return f"def f({', '.join(self.names)}, n):\n" + textwrap.indent("\n".join(lines), "    ")
