"""Control edges are all the order there is: any order that they and the data allow does the same.

`permuted` is a scheduler that draws, at every step, one of the nodes whose data and control inputs are done, in regions
too. Random functions of reads, writes, prints, draws, assertions, branches, loops and calls are run with it.
"""

import contextlib
import io
import random

import pytest
import torch

import tograph as tg
from tests.program_generator import Program
from tests.program_runner import compile_program, same_number
from tograph.runtime.graph import interp

GRAPHS, ORDERS = 50, 20


class Permuted:
    """Runs a graph in an order drawn by `rng`; `orders` counts the choices there were."""

    def __init__(self, seed):
        self.rng, self.choices = random.Random(seed), 0

    def run(self, graph, inputs):
        env = dict(zip(graph.inputs, inputs, strict=True))
        done, left = set(), list(graph.nodes)
        while left:
            ready = [
                n
                for n in left
                if all(v in env for v in n.inputs) and done.issuperset(n.control_inputs)
            ]
            self.choices += len(ready) > 1
            node = self.rng.choice(ready)
            left.remove(node)
            with torch.set_grad_enabled(torch.is_grad_enabled() and node.grad):
                results = interp.step(node, env, self.run)
            env.update(zip(node.outputs, results, strict=False))
            done.add(node)
        return [env[v] for v in graph.outputs]


class Program3:
    """A random function of `x` over three variables."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.budget = 9
        self.lines = [
            "def helper(x):",
            "    a.assign_add(x)",
            "    return b * 2",
            "inner = tg.function(helper)",
        ]
        self.lines += [
            "def f(x):",
            "    y = x * 1",
            *self.block(1),
            "    return y, a.read_value() + 0",
        ]

    def value(self):
        v = self.rng.choice("abc")
        return self.rng.choice(
            [f"{v}.read_value()", f"{v} * 0.5", "y", "x + 1", f"y + {v}", "torch.rand(())"]
        )

    def block(self, depth):
        lines = []
        for _ in range(self.rng.randrange(2, 5)):
            lines += self.statement(depth)
        return (
            ["    " * depth + line for line in lines]
            if depth == 1
            else ["    " + line for line in lines]
        )

    def statement(self, depth):
        self.budget -= 1
        v, value = self.rng.choice("abc"), self.value()
        simple = [f"{v}.assign({value})", f"{v}.assign_add({value})", f"y = {value}", f"tg.print({v}.read_value())", f"print(y, {v} * 1)",
                  f"assert {v} < {self.rng.choice([1, 3, 9])}, 'too large'", f"{v}.mul_(0.5)", "y = y + inner(y)",
                  f"tg.py_function(lambda z: print('py', z), [{value}], None)"]  # fmt: skip
        if depth < 3 and self.budget > 0 and self.rng.random() < 0.35:
            body = self.block(depth + 1)
            head = self.rng.choice(
                [f"if {v} > {self.rng.choice([0, 1])}:", "for _ in tg.range(2):"]
            )
            return [head, *body]
        return [self.rng.choice(simple)]

    def function(self, variables):
        program = Program("\n".join(self.lines) + "\n", (), "f")
        return compile_program(program, {"tg": tg, **variables})


def outcome(run, variables, x):
    torch.manual_seed(5)
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        try:
            result = [v.item() for v in run(x)]
        except AssertionError as error:
            result = [str(error)]
    final = [v.item() for v in variables.values()] + [torch.rand(()).item()]
    return result, final, printed.getvalue()


def agree(one, two):
    flat = [*zip(one[0], two[0], strict=True), *zip(one[1], two[1], strict=True)]
    return one[2] == two[2] and all(
        a == b or (isinstance(a, float) and isinstance(b, float) and same_number(a, b))
        for a, b in flat
    )


def fresh():
    return {
        n: tg.Variable(v, requires_grad=False) for n, v in zip("abc", (0.5, 1.0, 1.5), strict=True)
    }


@pytest.mark.parametrize("first", range(0, GRAPHS, 10))
def test_any_order_that_the_edges_allow_does_the_same(first):
    choices = 0
    for seed in range(first, first + 10):
        x = torch.tensor(random.Random(seed).choice([0.25, 1.0]))
        native = fresh()
        expected = outcome(Program3(seed).function(native), native, x)
        held = fresh()
        f = tg.function(Program3(seed).function(held))
        concrete = f.get_concrete_function(x)
        places = [next(n for n, v in held.items() if v is t) for t in concrete.captured_inputs]
        for order in range(ORDERS):
            variables = fresh()
            scheduler = Permuted(order)
            inputs = [variables[n] for n in places]
            found = outcome(lambda x: scheduler.run(concrete.graph, [x, *inputs])[:2], variables, x)
            choices += scheduler.choices
            assert agree(expected, found), f"seed {seed}, order {order}\n" + "\n".join(
                Program3(seed).lines
            )
    assert choices > 10 * ORDERS


def test_without_the_edges_the_order_would_show():
    """The check can fail: the same graphs with their control edges taken away give other results."""
    different = 0
    for seed in range(10):
        variables = fresh()
        concrete = tg.function(Program3(seed).function(variables)).get_concrete_function(
            torch.tensor(1.0)
        )
        places = [next(n for n, v in variables.items() if v is t) for t in concrete.captured_inputs]
        drop_edges(concrete.graph)
        native = fresh()
        expected = outcome(Program3(seed).function(native), native, torch.tensor(1.0))
        for order in range(5):
            given = fresh()
            inputs = [given[n] for n in places]
            run = Permuted(order).run
            found = outcome(
                lambda x: run(concrete.graph, [x, *inputs])[:2], given, torch.tensor(1.0)
            )
            different += not agree(expected, found) if len(expected[0]) == len(found[0]) else 1
    assert different > 5


def drop_edges(graph):
    for node in graph.nodes:
        node.control_inputs = []
        for region in node.regions.values():
            drop_edges(region)
