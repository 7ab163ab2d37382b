"""Random programs about the language: what `program_generator` and `program_writer` leave out.

`generate(seed)` makes a module of one function `f(a, n)` over texts, dicts, sets, tuples, slices, exceptions with all their clauses,
inner functions that rebind outer names, generators, comprehensions, chained comparisons, walrus, `match`, star-arguments, `del`,
`global`, class bodies and context managers, under conditions and loops that a tensor decides.

Invariants: loops end, numbers stay small, a name keeps its kind (i, j, k: number, s: text, xs: list of numbers, d: dict from text to
number, st: set of numbers, t: pair of numbers), texts and lists are cut where they grow.
"""

from tests.program_writer import Stateful, Writer, drawn_calls

HEAD = """
G, LOG, TABLE = 0, [], {"n": 1}


class Guard:
    def __init__(self, quiet):
        self.quiet = quiet

    def __enter__(self):
        print("enter")
        return self

    def __exit__(self, kind, error, trace):
        print("exit", kind and kind.__name__)
        return self.quiet and kind is KeyError


@contextlib.contextmanager
def managed(x):
    print("before", x)
    try:
        yield x
    finally:
        print("after", x)


class Fault(ValueError):
    pass


def star(x, *rest, y=1, **named):
    return x + len(rest) + y + sum(named.values())


def numbers(m):
    k = 0
    while k < m:
        got = yield k
        k += 2 if got else 1


def chained(m):
    yield from numbers(m)
    yield m


def doubled(function):
    @functools.wraps(function)
    def inner(*args, **named):
        return function(*args, **named) * 2 % 9
    return inner


@doubled
def halved(p, q=3):
    if p > q:
        return p // 2
    return q


class Base:
    count = 0

    def __init__(self, x):
        self.x = x
        Base.count = (Base.count + 1) % 7

    def value(self):
        return self.x

    @property
    def twice(self):
        return self.x * 2

    @classmethod
    def make(cls, x):
        return cls(x)

    @staticmethod
    def check(x):
        return x if x > 1 else 1

    def __call__(self, y):
        return (self.x + y) % 7

    def __getitem__(self, key):
        return self.x if key == 0 else key

    def __len__(self):
        return 3


class Derived(Base):
    def value(self):
        return super().value() + 1
"""  # noqa: Q001

SEEN = ("G", "LOG", "TABLE")


class LanguageWriter(Writer):
    """Draws the body of `f(a, n)`: `a` is a small int tensor, `n` a count, staged or not."""

    def number(self, deep=1):
        leaf = self.pick("a", "n", "i", "j", "k", "i", "j", "2", "len(s)", "len(xs)", 'd["k"]', "t[0]", "t[1]", "xs[-1]", "G", 'TABLE["n"]')  # fmt: skip
        if not deep:
            return leaf
        x, y = self.number(deep - 1), self.number(deep - 1)
        return self.pick(
            leaf, leaf, leaf, f"({x} + {y})", f"({x} * 2 - {y})", f"{x} % 3", f"{x} // 2", f"-{x}", f"abs({x})", f"max({x}, {y})",
            f"min({x}, 3, {y})", f"({x} if {self.test(0)} else {y})", f"(w := {x} + 1)", f"divmod({x}, 3)[1]", f"int({self.test(0)})",
            "sum(e for e in xs if e > 1)", f"len([e for e in xs if e != {x}])", f"sum([e * {x} for e in t])", "d.get('q', 4)", f"d.get('z', {x})",
            f"star({x}, *t)", f"star(*xs[:2], y={x})", f"star({x}, **{{'p': {y}}})", f"[*xs, {x}][-1]", f"{{**d, 'm': {x}}}['m']",
            "sorted(xs)[0]", "xs.count(2)", "sum(xs[1:])", "xs[::-1][0]", f"halved({x})", f"halved(q={x}, p={y})", f"sum(numbers({x} % 4))",
            f"sum(chained({x} % 3))", f"(lambda p, q={x}: p + q)({y})", f"h({x})", f"o.value() + {x}", "o.twice", "o[0]", f"o({x})", "len(o)",
            f"Base.check({x})", "Derived.make(2).value()", f"({x} or {y})", f"({x} and {y})", f"next((e for e in xs if e > {x}), 7)", "len(st)",
            f"{{1: {x}, 2: {y}}}[1]", f"dict(p={x})['p']", f"tuple([{x}, {y}])[0]", f"sum(range({x} % 4))", f"(1 << {x} % 3)", f"({x} ^ 1) % 8",
            f"functools.reduce(lambda p, q: p + q, t, {x})", f"sum(map(lambda e: e + {x}, xs))", f"max(xs, key=lambda e: -e) + {x}",
        )  # fmt: skip

    def test(self, deep=1):
        x, y = self.number(0), self.number(0)
        plain = self.pick(
            f"{x} > {self.rng.randrange(4)}", f"{x} < {y}", f"{x} % 2 == 0", f"0 < {x} < 4", f"{x} <= {y} != 2", f"{x} in (1, 2)", f"{x} not in xs",
            "'z' in d", "s == 'ab'", "s.startswith('a')", f"any(e > {x} for e in xs)", f"all(e < 9 for e in xs) and {x} > 1", "xs", f"{x} in st",
            f"{x} == {y}", "len(s) > 2", "t > (1, 2)", f"{x} in range(1, 4)", f"({x}, 1) == t", "w is None", "s in ('ab', 'b')", f"bool({x})",
        )  # fmt: skip
        if deep and self.rng.random() < 0.3:
            other = self.test(0)
            return self.pick(f"not {plain}", f"({plain}) and {other}", f"({plain}) or {other}")
        return plain

    def text(self):
        x = self.number(0)
        return self.pick(
            "s", "s + 'c'", f"f'{{{x}}}'", f"f'{{{x}:03d}}'", "f'{s!r}'", f"f'{{{x} + 1}}-{{s}}'", f"str({x})", f"'%d' % {x}", f"'{{}} {{}}'.format({x}, s)",
            "s.upper()", "s[::-1]", "s[1:]", "s * 2", "'-'.join([s, 'q'])", "''.join(str(e) for e in xs)", f"'yes' if {self.test(0)} else s",
            "s.replace('a', 'b')", f"f'{{xs}} {{{x} > 1}}'", "f'{d}'", f"f'{{{x}=}}'", "f'{t}'", f"f'{{s:>{{3 + 1}}}}|{{{x}:<3}}'", "repr(s)", "s.strip('a') or 'e'",
        )  # fmt: skip

    def simple(self):
        x, y = self.number(), self.number()
        return [self.pick(
            f"i = ({x}) % 7", f"j = ({x}) % 5 - 1", f"i += {self.number(0)} % 4", "i -= 1", "j = j * 2 % 9", "k //= 2", "i, j = j, i", f"i = j = ({x}) % 6",
            f"i, *rest = [({x}) % 5, 1, 2]", "(i, j), k = t, 1", f"t = (({x}) % 5, ({y}) % 4)", "t = t[::-1]", f"s = ({self.text()})[:6]", "s += 'c'; s = s[-4:]",
            f"xs[0] = ({x}) % 8", f"xs[{self.number(0)} % 2] = 5", "xs = [e % 5 + 1 for e in xs]", f"xs = [({x}) % 5, *xs][:3]", "xs = xs[::-1]",
            f"xs += [({x}) % 4]; del xs[0]", "xs.append(xs.pop(0))", f"xs[1:2] = [({x}) % 6]", "xs.sort()", "xs.reverse()", f"xs.insert(0, ({x}) % 5); xs.pop()",
            f"d['k'] = ({x}) % 6", "d['k'] += 1", f"d.update(k=({x}) % 5)", "d = {key: value % 5 + 1 for key, value in d.items()}", f"d |= {{'k': ({x}) % 4}}",
            f"d['z'] = ({x}) % 3", "d.pop('z', None)", f"d.setdefault('y', ({x}) % 4)", "st.add(3)", "st.discard(1)", f"st.add(({x}) % 5)", "st = st | {4}", "st ^= {1}",
            f"G = ({x}) % 9", f"LOG.append(({x}) % 9)", f"TABLE['n'] = ({x}) % 9", "TABLE['m'] = 1", f"o.x = ({x}) % 6", f"o = Derived(({x}) % 4)", "o = Base(1)",
            f"w = ({x}) % 4", "w = None", f"tmp = ({x}) % 5; print(tmp); del tmp", f"h(({x}) % 3)", f"fn = lambda p: p + i; j = fn(({x}) % 4) % 7",
            "for i in xs[:2]: pass", f"setattr(o, 'x', ({x}) % 5)", f"k = [({x}) % 5, ({y}) % 3][-1]", "del d['z']", "i = d['y']", f"i = xs[({x}) % 4]", "k = t.index(1)",
            "j = int(s) if s.isdigit() else j", f"i: int = ({x}) % 4",
        )]  # fmt: skip

    def effect(self):
        x = self.number()
        return [self.pick(f"print({self.text()})", f"print({x}, s, sep='-')", f"print('p', {x}, end=';\\n')", "print(xs, d, t)", "print(*xs)", f"assert {self.test(0)}, {self.text()}",
                          "print(sorted(st))", f"print({self.test()})", "print(d.items())", "print(*(e * 2 for e in t))", "print(sorted(d), w)")]  # fmt: skip

    def statement(self, depth, loop):
        self.budget -= 1
        r = self.rng.random()
        if depth < 3 and self.budget > 0 and r < 0.5:
            return self.nest(depth, loop)
        if r < 0.62:
            return self.effect()
        if r < 0.66 and depth:
            error = self.pick("ValueError('v')", "KeyError('k')", "Fault(f'r {i}')", "Fault('f') from None", "RuntimeError('r') from ValueError('c')")  # fmt: skip
            return [f"if {self.test()}:", f"    raise {error}"]
        if r < 0.7 and loop:
            return [f"if {self.test()}:", f"    {self.pick('break', 'continue')}"]
        if r < 0.73 and depth:
            return [f"if {self.test()}:", f"    return {self.result()}"]
        return self.simple()

    def nest(self, depth, loop):
        forms = {
            "if": 5,
            "for": 3,
            "while": 1,
            "try": 3,
            "with": 1,
            "match": 1.5,
            "def": 0.7,
            "class": 0.4,
        }
        return getattr(self, self.rng.choices(list(forms), list(forms.values()))[0] + "_")(
            depth, loop
        )

    def if_(self, depth, loop):
        test = self.pick(self.test(), self.test(), f"(w := {self.number()}) > 1")
        lines = [f"if {test}:", *self.block(depth + 1, loop)]
        if self.rng.random() < 0.25:
            lines += [f"elif {self.test()}:", *self.block(depth + 1, loop)]
        return lines + (["else:", *self.block(depth + 1, loop)] if self.rng.random() < 0.5 else [])

    def else_(self, depth, loop):
        return ["else:", *self.block(depth + 1, loop)] if self.rng.random() < 0.3 else []

    def for_(self, depth, loop):
        x = self.number()
        head = self.pick(
            "k in range(n)", "k in range(3)", f"k in range(({x}) % 4)", "k in list(xs)", "k, i in enumerate(t)", "k, i in zip(xs, t)", "k in reversed(t)",
            "key, k in list(d.items())", "key in sorted(d)", "c in s", f"k in numbers(({x}) % 4)", "k in chained(2)", "k in sorted(xs)", f"k in [1, ({x}) % 4]",
            "k in map(lambda e: e + 1, t)", "k in (e for e in t if e > 0)", "i, (j, k) in enumerate([t, (1, 2)])", "k in sorted(st)", "k in o if False else t",
        )  # fmt: skip
        return [f"for {head}:", *self.block(depth + 1, True), *self.else_(depth, loop)]

    def while_(self, depth, loop):
        self.counter += 1
        c = f"c{self.counter}"
        test = self.pick(
            f"{c} < n", f"{c} < 3 and {self.test(0)}", f"(w := {c}) < ({self.number(0)}) % 4"
        )
        return [f"{c} = 0", f"while {test}:", f"    {c} += 1", *self.block(depth + 1, True), *self.else_(depth, loop)]  # fmt: skip

    def try_(self, depth, loop):
        lines = ["try:", *self.block(depth + 1, loop)]
        handled = self.rng.random() < 0.85
        if handled:
            caught = self.pick("ValueError", "(KeyError, RuntimeError)", "Exception", "Fault", "LookupError", "AssertionError", "(Fault, IndexError)")  # fmt: skip
            if self.rng.random() < 0.4:
                lines += [f"except {caught} as e:", "    print(type(e).__name__, e)"]
            else:
                lines += [f"except {caught}:"]
            lines += self.block(depth + 1, loop)
            if self.rng.random() < 0.2:
                lines += [self.pick("    raise", "    raise KeyError('again') from None")]
            if self.rng.random() < 0.2:
                lines += ["except ValueError:", "    print('second')"]
            if self.rng.random() < 0.35:
                lines += ["else:", *self.block(depth + 1, loop)]
        if not handled or self.rng.random() < 0.4:
            lines += ["finally:", *self.block(depth + 2)]
        return lines

    def with_(self, depth, loop):
        manager = self.pick("Guard(True)", "Guard(False) as guard", f"managed({self.number(0)}) as i", "contextlib.suppress(KeyError)", "Guard(True), managed(s)")  # fmt: skip
        return [f"with {manager}:", *self.block(depth + 1, loop)]

    def match_(self, depth, loop):
        subject, cases = self.pick(
            (f"({self.number()}) % 4", ["0", "1 | 2", f"m if {self.test(0)}", "_"]),
            ("t", ["(1, m)", "(m, 2) as p", "[p, q] if p > q", "_"]),
            ("d", ["{'k': 1}", "{'k': m, 'z': q}", "{'y': _, **rest}", "_"]),
            ("s", ["'ab'", "'b' | 'c'", "str(m)"]),
            ("o", ["Derived(x=m)", "Base(x=1)", "_"]),
            ("xs", ["[]", "[m]", "[m, *rest]"]),
        )
        lines = [f"match {subject}:"]
        for case in cases:
            body = [*self.block(depth + 1, loop)]
            if case.isidentifier() is False and "m" in case.replace("match", ""):
                body.insert(0, "    print('m', m)")
            lines += [f"    case {case}:", *("    " + line for line in body)]
        return lines

    def def_(self, depth, loop):
        kept = self.pick("nonlocal i", "nonlocal j", "nonlocal xs", "global G", "pass")
        change = {"nonlocal i": "i = (i + p) % 7", "nonlocal j": "j = p % 5", "nonlocal xs": "xs = [p % 3, *xs][:3]", "global G": "G = p % 4", "pass": "pass"}[kept]  # fmt: skip
        return [
            "def h(p, *more):",
            f"    {kept}",
            f"    if p > {self.rng.randrange(3)}:",
            f"        {change}",
            f"        return {self.pick('p', 'p + i', 'len(xs)', 'i')}",
            f"    return {self.pick('i', 'p * 2', 'j', '1')}",
            f"j = h({self.number(0)}) % 8",
        ]

    def class_(self, depth, loop):
        x = self.number(0)
        return [
            "class Local(Base):",
            f"    y = ({x}) % 5",
            f"    if {self.test(0)}:",
            "        z = 2",
            "    else:",
            "        z = 3",
            "    def value(self):",
            "        return self.x + self.y * self.z + i",
            "o = Local(1)",
        ]

    def result(self):
        return self.pick("i", "i, j", "s", "xs", "d", "t", "k, s", "{'i': i, 's': s}", "w", "[i, *xs]", "sorted(st)", "o.x", "None", "(i, (j, [s]))")  # fmt: skip

    def source(self):
        lines = ["global G", "i, j, k, s, w = 1, 2, 0, 'ab', None", "xs, d, st, t, o = [3, 1, 2], {'k': 1, 'z': 2}, {1, 2}, (1, 2), Base(2)"]  # fmt: skip
        lines += ["def h(p):", "    return p + 1"]
        if self.rng.random() < 0.5:
            lines += [self.pick("i = a + 1", "t = (a, 1)", "d['k'] = a", "xs[1] = a", "j = a.item()", "i = int(a)")]  # fmt: skip
        while self.budget > 0:
            lines += self.statement(0, False)
        lines.append(f"return {self.result()}")
        return HEAD + "\n\ndef f(a, n):\n" + "".join(f"    {line}\n" for line in lines)


def generate(seed, size=7) -> Stateful:
    return Stateful(LanguageWriter(seed, size).source(), drawn_calls(seed, 0.7))
