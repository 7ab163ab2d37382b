"""Random programs over objects of users' classes, called several times with other values and attributes: native against `tg.function`.

A program is a class with an iterator, a property, operators and a method that returns early, and a function of such an object that is
global and one that it makes. Types of the results, what is printed, exceptions, attributes and which results are one object agree.
"""

import contextlib
import io
import linecache
import random

import pytest
import torch

import tograph as tg

HEAD = """
class Steps:
    def __init__(self, x, n):
        self.x, self.n, self.i = x, n, 0

    def __next__(self):
        if {end}:
            raise StopIteration
        self.i += 1
        return {item}

class Box:
    made = 0

    def __init__(self, x, n=0):
        self.x, self.n, self.seen = x, n, None
        type(self).made += 1

    def __iter__(self):
        return Steps(self.x, self.n)

    @property
    def level(self):
        self.n += 1
        if {condition}:
            raise AttributeError("level")
        return self.n

    def __add__(self, other):
        return Box(self.x + (other.x if isinstance(other, Box) else other), self.n)

    def __eq__(self, other):
        return bool(self.x == other.x)

    def step(self, x):
{method}

box = Box(torch.tensor(1.0), 2)

def f(x):
    made = Box(x * 2)
{body}
    return made, box.n, made.x, box.seen, Box.made
"""
ENDS = ("self.i >= 4", "self.i >= self.x", "self.i > self.n or self.i > 5")
ITEMS = ("self.i", "self.x * self.i", "(self.i, self.x)[0]")
CONDITIONS = ("self.n % 3 == 0", "self.x > 2", "self.n > 4 and self.x < 0")
METHOD = (
    "if x > self.x:\n    self.n += 1\n    return self.n",
    "if {c}: self.seen = x",
    "self.x = self.x + 1 if {c} else self.x - x",
    "while self.x > 6: self.x = self.x / 2",
    "self.n = (self.n + 2) % 7",
)
BODY = (
    "for v in {o}:\n    if v > x: break\n    {o}.n = ({o}.n + 1) % 9\nelse:\n    print('all')",
    "for v in {o}: made.x = made.x + v",
    "print(hasattr({o}, 'level'), {o}.n)",
    "made.n = getattr({o}, 'level', -1)",
    "print({o}.step(x))",
    "made = made + {o}",
    "if {o}.step(x - 1): made.seen = x",
    "if x > 0:\n    made = made + 1",
    "print(made == box, next(iter({o}), None))",
    "if x < -2: raise ValueError(f'{{box.n}}')",
)


def indented(lines, by):
    return "\n".join(" " * by + line for text in lines for line in text.splitlines())


def source_of(seed):
    draw = random.Random(seed)
    pick = lambda rows, k: [t.format(o=draw.choice(("box", "made")), c=draw.choice(CONDITIONS)) for t in draw.sample(rows, k)]  # fmt: skip
    return HEAD.format(
        end=draw.choice(ENDS), item=draw.choice(ITEMS), condition=draw.choice(CONDITIONS),
        method=indented(pick(METHOD, 3), 8), body=indented(pick(BODY, 4), 4),
    )  # fmt: skip


def shape(x, met):
    """What can be seen of a value, with numbers for the objects that were met before."""
    if isinstance(x, torch.Tensor):
        return str(x.dtype), round(x.item(), 3)
    if hasattr(x, "__dict__") or isinstance(x, tuple):
        if id(x) in met:
            return met.index(id(x))
        met.append(id(x))
        return [shape(v, met) for v in (x if isinstance(x, tuple) else vars(x).values())]
    return type(x).__name__, x


def outcomes(seed, convert):
    source, file = source_of(seed), f"<class program {seed}>"
    linecache.cache[file] = (len(source), None, source.splitlines(True), file)
    namespace = {"torch": torch, "__name__": "class_program"}
    exec(compile(source, file, "exec"), namespace)
    f = tg.function(namespace["f"]) if convert else namespace["f"]
    box, found = namespace["box"], []
    for value, n in ((1.0, 2), (4.0, 3), (-3.0, None), (0.5, 1)):
        if n is not None:
            box.n, box.x = n, torch.tensor(float(n))
        result = None
        with contextlib.redirect_stdout(io.StringIO()) as out:
            try:
                result = f(torch.tensor(value))
            except (ValueError, TypeError, AttributeError) as error:
                out.write(f"{type(error).__name__} {str(error).splitlines()[0]}")
        met = []
        found.append((shape((result, box), met), out.getvalue()))
    return found


@pytest.mark.parametrize("seed", (0, 5, 12, 23, 24, 31))
def test_objects(seed):
    native, converted = outcomes(seed, False), outcomes(seed, True)
    for call, (one, other) in enumerate(zip(native, converted)):
        assert one == other, f"call {call}\n{source_of(seed)}"
