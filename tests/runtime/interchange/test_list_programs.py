"""Random programs over two lists, loops and branches: torch.fx and ONNX give what plain Python gives."""

import linecache
import random

import pytest
import torch

import tograph as tg

SIMPLE = [
    "{L}.append(x * {k} + n)", "if len({L}) > {k}: {L}.pop({at})", "{L}.insert({k} - 2, x + {k})", "if len({L}) > 0: {L}[-1] = x - n",
    "{L}.extend([x, x + {k}])", "{L} = {L}[{cut}]", "x = x + len({L}) * 0.1", "{L} = [x]", "if len({L}) > 1: x = x + {L}[{k} - 2] * 0.1",
    "n = n + 1", "{L}.append(x - {k})",
]  # fmt: skip
TESTS = ["x.sum() > n", "n % 2 == 0", "len(a) < 3", "x[0] > 1"]
CALLS = [torch.ones(2), torch.tensor([-3.0, 1.0])]


def statements(pick, depth, count):
    """Lines of a block; loops and branches nest twice."""
    indent, out = "    " * (depth + 1), []
    for _ in range(count):
        kind = pick.random()
        if depth < 2 and kind < 0.15:
            out.append(f"{indent}if {pick.choice(TESTS)}:")
            out += statements(pick, depth + 1, 2)
        elif depth < 2 and kind < 0.3:
            out.append(f"{indent}for i{depth} in tg.range({pick.choice(['3', '2', 'n'])}):")
            out += statements(pick, depth + 1, 2)
        else:
            holes = {"L": pick.choice("ab"), "k": pick.randrange(4), "at": pick.choice(["", "0"]),
                     "cut": pick.choice(["1:", ":2", "::-1", "-2:", ":-1"])}  # fmt: skip
            out.append(indent + pick.choice(SIMPLE).format(**holes))
    return out


def program(seed):
    pick = random.Random(seed)
    lines = ["def f(x):", f"    a, b, n = {pick.choice(['[]', '[x]'])}, [x * 2, x], 0"]
    lines += statements(pick, 0, pick.randrange(3, 6))
    lines += [
        f"    while n < {pick.randrange(3, 7)}:",
        *statements(pick, 1, 2),
        "        n = n + 1",
    ]
    lines += ["    a.append(x)", "    b.append(x)", "    return torch.stack(a), torch.stack(b), x + n, x * 0 + len(a)"]  # fmt: skip
    source = "\n".join(lines) + "\n"
    file = f"<list program {seed}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    namespace = {"torch": torch, "tg": tg}
    exec(compile(source, file, "exec"), namespace)
    return namespace["f"], source


def check(run, function, source):
    for x in CALLS:
        for actual, expected in zip(run(x), function(x), strict=True):
            torch.testing.assert_close(torch.as_tensor(actual), expected, msg=source)


@pytest.mark.parametrize("seed", range(24))
def test_fx(seed):
    function, source = program(seed)
    module = tg.function(function).get_concrete_function(CALLS[0]).to_fx(list_capacity=60)
    check(module, function, source)


@pytest.mark.parametrize("seed", range(22, 39))
def test_onnx(tmp_path, seed):
    pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    function, source = program(seed)
    path = str(tmp_path / "model.onnx")
    tg.function(function).get_concrete_function(CALLS[0]).to_onnx(path)
    session = runtime.InferenceSession(path)
    check(lambda x: session.run(None, {"x": x.numpy()}), function, source)
