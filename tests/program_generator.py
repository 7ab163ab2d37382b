"""Random small programs to run natively and through `tg.function` (see `program_runner`).

`generate(seed, size)` makes one function over `a`, `b`, `n`. Every variable keeps one kind,
which its first letter tells: i int, f float32, v vector of 3, o bool (Python or 0-d tensor
alike), k loop counter, xs Python list. Invariants: every loop ends (a `while` counts its own k
and tests it), integers in loops are reduced by a modulus, shapes do not depend on data, all
returns of a program have one structure, an assigned value is a fresh object (so `x += 1` never
has an alias). Only the few programs with `mutates` write to their arguments.
"""

import ast
import dataclasses
import random
import re

import torch


@dataclasses.dataclass
class Program:
    source: str
    args: tuple
    name: str


@dataclasses.dataclass
class Context:
    """Where a statement stands: what it may do there."""

    depth: int = 0
    in_loop: bool = False  # break and continue are legal here
    bounded: bool = False  # may run many times: keep numbers small
    returns: bool = True
    writes: bool = True  # in-place writes allowed
    iterated: frozenset = frozenset()  # vectors being iterated over: not written in place

    def inner(self, **changes):
        return dataclasses.replace(self, depth=self.depth + 1, **changes)


def weights(text):
    """`"if 2  while .5"` as a table of weights."""
    words = text.split()
    return dict(zip(words[::2], map(float, words[1::2]), strict=True))


class Generator:
    """Draws a program. `scope` maps surely bound names to kinds; `maybe` holds the others."""

    def __init__(self, seed, size):
        self.rng = random.Random(seed)
        self.budget = size
        self.counter = 0
        self.maybe = {}
        self.helpers = []
        self.loose = self.rng.random() < 0.1  # Python floats may stand where float32 tensors stand
        self.mutates = self.rng.random() < 0.06
        self.unbound = self.rng.random() < 0.15

    # --- small tools

    def chance(self, probability):
        return self.rng.random() < probability

    def pick(self, table):
        return self.rng.choices(list(table), list(table.values()))[0]

    def fresh(self, letter):
        self.counter += 1
        return f"{letter}{self.counter}"

    def names(self, scope, kind):
        return [name for name, its_kind in scope.items() if its_kind == kind]

    def name(self, scope, kind, default):
        names = self.names(scope, kind)
        return self.rng.choice(names) if names else default

    # --- expressions; `deep` bounds the nesting

    def expression(self, kind, scope, deep=2):
        return {"int": self.int_, "float": self.float_, "vec": self.vec, "bool": self.test}[kind](
            scope, deep
        )

    def int_(self, scope, deep):
        if deep == 0 or self.chance(0.25):
            return str(self.rng.randrange(5)) if self.chance(0.15) else self.name(scope, "int", "2")
        x = self.int_(scope, deep - 1) if self.chance(0.4) else self.name(scope, "int", "2")
        y = self.int_(scope, deep - 1) if self.chance(0.6) else str(self.rng.randrange(1, 5))
        forms = weights("+ 4  - 4  * 2  % 3  // 1  abs 1  minmax 2  if 2  list 1.5")
        forms |= weights("or .5  and .5  int .3")
        form = self.pick(forms | {"call": 2 * bool(self.helpers)})
        if form in "+-":
            return f"({x} {form} {y})"
        if form == "call":
            return f"{self.rng.choice(self.helpers)}({x})"
        if form == "list":
            return self.list_value(scope)
        return {
            "*": f"({x} * {self.rng.choice([2, 3, -1])})",
            "%": f"({x} % {self.rng.choice([2, 3, 5])})",
            "//": f"({x} // {self.rng.choice([2, 3])})",
            "abs": f"abs({x})",
            "minmax": f"{self.rng.choice(['min', 'max'])}({x}, {y})",
            "if": f"({x} if {self.test(scope, deep - 1)} else {y})",
            "or": f"({x} or {y})",
            "and": f"({x} and {y})",
            "int": f"int({self.float_(scope, 0)})",
        }[form]

    def list_value(self, scope):
        names = self.names(scope, "list")
        if names and self.chance(0.7):
            xs = self.rng.choice(names)
            return self.rng.choice([f"{xs}[0]", f"{xs}[-1]", f"len({xs})", f"sum({xs})"])
        element = self.rng.choice(["e", "e * 2", f"e + {self.name(scope, 'int', '1')}"])
        guard = self.rng.choice(["", "", " if e > 1"])
        return f"sum([{element} for e in [1, 2, 3]{guard}])"

    def float_(self, scope, deep):
        constant = str(self.rng.choice([0.5, 1.0, -0.5, 1.5, 2.0]))
        if deep == 0 or self.chance(0.2):
            if self.loose and self.chance(0.3):
                return constant
            vector = self.name(scope, "vec", None)
            item = f"{vector}[{self.rng.randrange(3)}]" if vector else f"torch.tensor({constant})"
            return self.name(scope, "float", item)
        x, y = self.float_(scope, deep - 1), self.float_(scope, deep - 1)
        forms = [f"({x} {self.rng.choice('+-')} {y})", f"({x} {self.rng.choice('+-*')} {constant})"]
        forms += [f"abs({x})", f"({x} if {self.test(scope, 0)} else {y})"]
        forms += [f"({x} + {self.name(scope, 'int', '1')})"]
        forms += [f"{v}.sum()" for v in self.names(scope, "vec")[:2]]
        return self.rng.choice(forms)

    def vec(self, scope, deep):
        atom = self.name(scope, "vec", "torch.ones(3)")
        if deep == 0 or self.chance(0.2):
            return atom
        x = self.vec(scope, deep - 1)
        kind, constant = self.rng.choice([("float", "0.5"), ("int", "1"), ("vec", atom)])
        other = self.name(scope, kind, constant)
        forms = [f"({x} {self.rng.choice('+-')} {other})", f"({x} * 0.5)", f"torch.relu({x})"]
        forms += [
            f"({x} if {self.test(scope, 0)} else {atom})",
            f"torch.where({x} > 0.5, {other}, {atom})",
        ]
        return self.rng.choice(forms)

    def comparison(self, scope, deep):
        relation = self.rng.choice(["<", ">", "<=", ">=", "==", "!="])
        choices = {"int": 6, "chain": 1.5, "parity": 1.5, "bool": 1}
        choices |= {
            "float": 3 * bool(self.names(scope, "float")),
            "vec": 2 * bool(self.names(scope, "vec")),
        }
        form = self.pick(choices)
        x = self.int_(scope, min(deep, 1))
        if form == "float":
            return f"{self.float_(scope, min(deep, 1))} {self.rng.choice('<>')} 0.75"
        if form == "vec":
            v = self.name(scope, "vec", None)
            return self.rng.choice(
                [f"{v}.sum() > 1", f"({v} > 0.5).any()", f"{v}[0] < {v}[2]", f"{v}.max() > 1"]
            )
        if form == "bool":
            return self.name(scope, "bool", f"{x} > 0")
        if form == "chain":
            low, high = self.rng.randrange(2), self.rng.randrange(2, 6)
            return f"{low} {self.rng.choice(['<', '<='])} {x} < {high}"
        if form == "parity":
            return f"{x} % 2" + self.rng.choice([" == 0", " == 1", ""])
        y = self.int_(scope, 0) if self.chance(0.5) else str(self.rng.randrange(4))
        return f"{x} {relation} {y}" if x != y else f"{x} {relation} {self.rng.randrange(4)}"

    def test(self, scope, deep=1):
        if deep > 0 and self.chance(0.35):
            form = self.rng.choice(["and", "or", "not"])
            if form == "not":
                return f"not ({self.test(scope, 0)})"
            return f"({self.test(scope, 0)} {form} {self.test(scope, 0)})"
        return self.comparison(scope, deep)

    # --- statements: each returns its lines

    def block(self, scope, context, least=1):
        """Statements in a scope of their own; names bound only here become `maybe`."""
        inner = dict(scope)
        lines = []
        for _ in range(self.rng.choice([least, least, 2, 3])):
            if self.budget <= 0 and lines:
                break
            lines += self.statement(inner, context)
        self.maybe |= {name: kind for name, kind in inner.items() if name not in scope}
        return ["    " + line for line in lines]

    def statement(self, scope, context):
        self.budget -= 1
        nests = context.depth < 3 and self.budget > 0
        table = weights(
            "assign 6  augment 3  tuple 1.5  print 1.5  assert .4  bool .7  item 1.5  raise .7"
        )
        table |= {"exit": 2.5 * bool(context.depth), "list": 0.8 * (not context.depth)}
        table |= {"call": 1.5 * bool(self.helpers), "use_maybe": 3 * self.unbound}
        if nests:
            table |= weights("if 6  while 3.5  for 4  try 1  match 1")
        lines = getattr(self, self.pick(table) + "_statement")(scope, context)
        return lines or self.assign_statement(scope, context)

    def bind(self, scope, kind):
        """A target: mostly a local name of that kind that exists, else a new one."""
        names = [name for name in self.names(scope, kind) if name[0] == kind[0]]
        return self.rng.choice(names) if names and self.chance(0.75) else self.fresh(kind[0])

    def value(self, kind, scope, context):
        """A fresh value of a kind, kept small where it may be computed many times."""
        text = self.expression(kind, scope, 1 if context.bounded and kind != "int" else 2)
        if kind == "int":
            if context.bounded:
                return f"{text} % {self.rng.choice([7, 11])}"
            made = isinstance(ast.parse(text, mode="eval").body, ast.BinOp | ast.Constant)
            return text if made else f"{text} + 1"
        return f"{text} * 0.5" if context.bounded else f"{text} + {self.rng.choice([0.5, 1.0])}"

    def assign_statement(self, scope, context):
        kind = self.pick({"int": 5, "float": 2.5, "vec": 3 if self.names(scope, "vec") else 0.3})
        value = self.value(kind, scope, context)
        name = self.bind(scope, kind)
        scope[name] = kind
        return [f"{name} = {value}"]

    def bool_statement(self, scope, context):
        value = self.test(scope)
        if not re.search(r"[<>=]|any", value) or re.match(r".* % 2$", value):
            value = f"({value}) == 1"
        name = self.fresh("o")
        scope[name] = "bool"
        return [
            f"{name} = bool({value})" if re.search(" and | or ", value) else f"{name} = {value}"
        ]

    def tuple_statement(self, scope, context):
        kind = self.pick({"int": 3, "float": 1, "vec": 1})
        names = [name for name in self.names(scope, kind) if name[0] == kind[0]]
        if len(names) < 2:
            return []
        x, y = self.rng.sample(names, 2)
        return [f"{x}, {y} = {y}, " + self.rng.choice([x, self.value(kind, scope, context)])]

    def writable(self, scope, kind, context):
        """Names that may be written in place; arguments (never n, it bounds loops) if `mutates`."""
        letters = kind[0] + "ab" * self.mutates
        names = [name for name in self.names(scope, kind) if name[0] in letters]
        return [name for name in names if context.writes and name not in context.iterated]

    def augment_statement(self, scope, context):
        kind = self.pick({"int": 4, "float": 2, "vec": 2})
        names = self.writable(scope, kind, context)
        if not names:
            return []
        name = self.rng.choice(names)
        if kind == "int":
            value = self.rng.choice([f"{name} % 3", f"{self.int_(scope, 1)} % 4", "1", "2"])
            return [self.rng.choice([f"{name} += {value}", f"{name} -= {value}", f"{name} %= 7"])]
        change = self.rng.choice([f"+= {self.int_(scope, 0)} % 3", "*= 0.5", "-= 0.5"])
        return [f"{name} {change}"]

    def item_statement(self, scope, context):
        names = self.writable(scope, "vec", context)
        if not names:
            return []
        name = self.rng.choice(names)
        index = self.rng.choice(["0", "-1", *[f"{self.int_(scope, deep)} % 3" for deep in (0, 1)]])
        value = self.float_(scope, 1) if self.chance(0.6) else f"{self.int_(scope, 1)} % 5"
        return [f"{name}[{index}] {self.rng.choice(['=', '=', '+='])} {value}"]

    def list_statement(self, scope, context):
        name = self.fresh("xs")
        first = self.value("int", scope, context)
        lines = self.rng.choice(
            [
                [f"{name} = [{first}, {self.value('int', scope, context)}]"],
                [f"{name} = [e * {self.name(scope, 'int', '2')} for e in [1, 2, 3]]"],
                [
                    f"{name} = [{first}]",
                    "for e in [2, 3]:",
                    f"    {name}.append(e + {self.int_(scope, 1)})",
                ],
            ]
        )
        scope[name] = "list"
        return lines

    def print_statement(self, scope, context):
        kind = self.pick({"int": 4, "float": 1, "vec": 1, "bool": 1})
        label = self.rng.choice(["", f"'p{self.fresh('')}', "])
        return [f"print({label}{self.name(scope, kind, self.name(scope, 'int', '0'))})"]

    def assert_statement(self, scope, context):
        return [
            f"assert {self.name(scope, 'int', '1')} < {self.rng.choice([2, 9, 50])}, 'too large'"
        ]

    def raise_statement(self, scope, context):
        error = self.rng.choice(["ValueError('bad')", "RuntimeError('broken')", "KeyError('k')"])
        return [f"if {self.int_(scope, 1)} > {self.rng.choice([2, 5, 9])}:", f"    raise {error}"]

    def use_maybe_statement(self, scope, context):
        names = [name for name in self.maybe if name not in scope and self.maybe[name] == "int"]
        if not names:
            return []
        name = self.bind(scope, "int")
        line = f"{name} = {self.rng.choice(names)} % 7 + 1"
        scope[name] = "int"
        return [line]

    def call_statement(self, scope, context):
        return [f"{self.rng.choice(self.helpers)}({self.int_(scope, 0)})"]

    def exit_statement(self, scope, context):
        exits = [self.return_line(scope)] if context.returns else []
        exits += ["break", "continue"] * context.in_loop
        if not exits:
            return []
        lines = self.block(scope, context.inner()) if self.chance(0.3) and context.depth < 3 else []
        return [f"if {self.test(scope)}:", *lines, "    " + self.rng.choice(exits)]

    def return_line(self, scope):
        values = [self.expression(kind, scope, 1) for kind in self.return_kinds]
        return "return " + ", ".join(values)

    def if_statement(self, scope, context):
        test = self.test(scope)
        if self.chance(0.1):
            name = self.fresh("i")
            test = f"({name} := {self.value('int', scope, context)}) > {self.rng.randrange(3)}"
            scope[name] = "int"
        lines = [f"if {test}:", *self.block(scope, context.inner())]
        while self.chance(0.25):
            lines += [f"elif {self.test(scope)}:", *self.block(scope, context.inner())]
        if self.chance(0.5):
            lines += ["else:", *self.block(scope, context.inner())]
        return lines

    def loop_else(self, scope, context):
        return ["else:", *self.block(scope, context.inner())] if self.chance(0.15) else []

    def while_statement(self, scope, context):
        k = self.fresh("k")
        start = self.rng.choice(["0", "0", "torch.tensor(0)"])
        bound = self.rng.choice(["3", "4", "n", "n + 1"])
        inner = context.inner(in_loop=True, bounded=True)
        with_k = scope | {k: "int"}
        if self.chance(0.15):
            head = ["while True:", f"    {k} += 1", f"    if {k} > {bound}:", "        break"]
            return [f"{k} = {start}", *head, *self.block(with_k, inner)]
        extra = f" and {self.test(scope, 0)}" if self.chance(0.5) else ""
        head = self.rng.choice([f"{k} < {bound}{extra}", f"({k} < {bound}){extra}"])
        lines = [f"{k} = {start}", f"while {head}:", f"    {k} += 1", *self.block(with_k, inner)]
        return lines + self.loop_else(scope, context)

    def for_statement(self, scope, context):
        j, e = self.fresh("j"), self.fresh("e")
        vector = self.rng.choice(self.names(scope, "vec")) if self.names(scope, "vec") else None
        forms = weights("range 3  n 4  mod 2  list 1.5  enumerate .7  zip .5  start 1")
        forms |= {"vector": 1.5 * bool(vector), "rows": 4 * ("matrix" in scope.values())}
        form = self.pick(forms)
        head, bound = {
            "range": (f"{j} in range({self.rng.randrange(5)})", {j: "int"}),
            "n": (f"{j} in range(n)", {j: "int"}),
            "mod": (f"{j} in range({self.int_(scope, 1)} % 4)", {j: "int"}),
            "start": (f"{j} in range(1, n + 2{self.rng.choice(['', ', 2'])})", {j: "int"}),
            "list": (f"{j} in [1, {self.name(scope, 'int', '2')} % 5, 3]", {j: "int"}),
            "enumerate": (f"{j}, {e} in enumerate([2, 0, 1])", {j: "int", e: "int"}),
            "zip": (f"{j}, {e} in zip(range(3), [4, 1, 2])", {j: "int", e: "int"}),
            "vector": (f"{e} in {vector}", {e: "float"}),
            "rows": (f"{e} in {self.name(scope, 'matrix', '')}", {e: "vec"}),
        }[form]
        iterated = context.iterated | ({vector, e} if form in ("vector", "rows") else set())
        inner = context.inner(in_loop=True, bounded=True, iterated=iterated)
        if form == "vector":  # its elements are views of it: keep arithmetic on it out of place
            scope = {name: kind for name, kind in scope.items() if name != vector}
        return [f"for {head}:", *self.block(scope | bound, inner), *self.loop_else(scope, context)]

    def try_statement(self, scope, context):
        error = self.rng.choice(["ValueError", "RuntimeError", "KeyError"])
        raises = f"    if {self.test(scope)}:", f"        raise {error}('t')"
        inner = context.inner()
        lines = ["try:", *self.block(scope, inner), *(raises if self.chance(0.8) else ())]
        catches = self.chance(0.8)
        if catches:
            caught = self.rng.choice([error, error, "(ValueError, RuntimeError)", "Exception"])
            lines += [f"except {caught}:", *self.block(scope, inner)]
        if not catches or self.chance(0.3):
            quiet = context.inner(in_loop=False, returns=False, writes=False)
            lines += ["finally:", *self.block(scope, quiet)]
        return lines

    def match_statement(self, scope, context):
        lines = [f"match {self.int_(scope, 1)} % 4:"]
        for case in self.rng.sample(["0", "1", "2 | 3", "3"], 2) + ["_"] * self.chance(0.6):
            body = self.block(scope, context.inner())
            lines += [f"    case {case}:", *("    " + line for line in body)]
        return lines

    def helper(self, scope):
        """A nested function of one int, half of them with a nonlocal int."""
        name, maybe = self.fresh("h"), dict(self.maybe)
        context = Context(depth=2, bounded=True, returns=False)
        state = self.rng.choice([x for x in self.names(scope, "int") if x[0] == "i"])
        inner = {"p": "int"} | {
            x: k for x, k in scope.items() if k in ("int", "bool") and x[0] in "aobn"
        }
        inner["n"] = "int"
        body = []
        if self.chance(0.5):
            body = [f"    nonlocal {state}", f"    {state} = ({state} + p) % 7"]
            inner[state] = "int"
        if self.chance(0.6):
            body += [f"    if {self.test(inner, 0)}:", f"        return {self.int_(inner, 1)} % 5"]
        elif self.chance(0.4):
            test = self.test(inner, 0)
            body += [f"    if {test}:", *("    " + line for line in self.block(inner, context))]
        self.maybe = maybe  # what it binds is its own
        lines = [f"def {name}(p):", *body, f"    return {self.int_(inner, 1)} % 5"]
        self.helpers.append(name)
        return lines

    # --- the whole program

    def parameter(self, kind):
        """An argument of a kind: its value, and the kind that its name has in the program."""
        small = self.rng.randrange(-1, 6)
        quarters = [self.rng.randrange(-4, 9) / 4 for _ in range(6)]
        return {
            "int tensor": (torch.tensor(small), "int"),
            "float tensor": (torch.tensor(quarters[0]), "float"),
            "vector": (torch.tensor(quarters[:3]), "vec"),
            "matrix": (torch.tensor(quarters).reshape(2, 3), "matrix"),
            "int": (small, "int"),
            "bool": (small > 1, "bool"),
            "count tensor": (torch.tensor(max(small, 0)), "int"),
            "count": (max(small, 0), "int"),
        }[kind]

    def program(self):
        kinds = {"int tensor": 4, "float tensor": 3, "vector": 2, "matrix": 1, "int": 1, "bool": 1}
        drawn = [self.pick(kinds), self.pick(kinds), self.pick({"count tensor": 3, "count": 1})]
        if not any("tensor" in kind for kind in drawn):
            drawn[0] = "int tensor"
        drawn = [self.parameter(kind) for kind in drawn]
        scope = {name: kind for name, (_, kind) in zip("abn", drawn, strict=True)}
        context = Context()
        lines = []
        locals_ = ["int", "int"] + [kind for kind in ("float", "vec") if self.chance(0.6)]
        for kind in locals_:
            name = self.fresh(kind[0])
            value = self.value(kind, scope, context)
            if kind == "int" and self.chance(0.4):
                value = str(self.rng.randrange(4))
            lines.append(f"{name} = {value}")
            scope[name] = kind
        self.return_kinds = self.rng.sample(["int", "int", *locals_], self.rng.choice([1, 1, 2, 3]))
        if self.chance(0.2):
            lines += self.helper(scope)
        nesting = self.rng.choice([self.if_statement, self.while_statement, self.for_statement])
        position = self.rng.randrange(3)
        while self.budget > 0:
            if position == 0:
                lines += nesting(scope, context)
            position -= 1
            lines += self.statement(scope, context)
        if position >= 0:
            lines += nesting(scope, context)
        if self.return_kinds == ["int"] or self.chance(0.7):
            final = [self.name(scope, kind, "n") for kind in self.return_kinds]
            lines.append("return " + ", ".join(final))
        else:
            lines.append(self.return_line(scope))
        return lines, tuple(value for value, _ in drawn)


def generate(seed, size=6) -> Program:
    name = f"program_{seed}"
    lines, args = Generator(seed, size).program()
    source = "\n".join([f"def {name}(a, b, n):", *("    " + line for line in lines)]) + "\n"
    return Program(source, args, name)
