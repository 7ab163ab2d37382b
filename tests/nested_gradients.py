"""Differentiable functions of constructs nested three deep: `source(outer, middle, inner)` is the text of one.

Each construct is a template around a block that changes `x` (a vector of 2) by `w` (2 by 2) and `a` (a number that is a tensor); `n` is a trip count.
The block in the middle of all is `INNERMOST`. `{d}` is the depth, so that names of constructs in each other differ.
"""

INNERMOST = "x = torch.tanh(x @ w) + a * x"

CONSTRUCTS = {
    "if": """
if x.sum() > a:
    BLOCK
""",
    "either": """
if n > 1:
    x = x * w[0]
else:
    BLOCK
""",
    "while": """
k{d} = 0
while k{d} < n and x.sum() < 50:
    k{d} = k{d} + 1
    BLOCK
""",
    "for": """
for k{d} in range(n):
    BLOCK
    a = a * 0.9
""",
    "broken": """
for k{d} in range(n + 1):
    BLOCK
    if x[0] > 0.4:
        x = x * 0.5
        break
else:
    x = x.cos()
""",
    "match": """
match n:
    case 1:
        BLOCK
    case 2:
        x = x.sin() * a
    case _:
        x = x * w[1]
""",
    "try": """
try:
    BLOCK
    if x.sum() > a + 0.2:
        raise ValueError("large")
    x = x * 1.1
except ValueError:
    x = x - a
""",
    "list": """
rows{d} = [x * a]
for k{d} in range(n):
    BLOCK
    rows{d}.append(x.sin())
x = x + torch.stack(rows{d}).sum(0) * rows{d}[-1]
""",
    "call": """
@tg.function
def inner{d}(x, a):
    BLOCK
    return x.cos() if x.sum() > 0 else x
x = inner{d}(x, a * 2)
""",
    "early": """
def leaves{d}(x, a):
    for k in range(n):
        if x.sum() > 1:
            return x * a
        BLOCK
    return x + w[0]
x = leaves{d}(x, a)
""",
    "optional": """
best{d} = None
for k{d} in range(n):
    BLOCK
    if best{d} is None or x.sum() > best{d}.sum():
        best{d} = x * a
if best{d} is not None:
    x = best{d}
""",
    "rows": """
def row{d}(r, x=x, a=a):
    BLOCK
    return x * r
x = x + tg.map_fn(row{d}, w).sum(0)
""",
    "written": """
y{d} = torch.stack([x, x * a])
v{d} = y{d}[1]
if n != 2:
    v{d}.mul_(w[0])
BLOCK
y{d}[0] = x
x = y{d}.sin().sum(0) + v{d}
""",
    "gradient": """
def energy{d}(x, a):
    BLOCK
    return (x * x).sum()
x = x - 0.1 * torch.func.grad(energy{d})(x, a)
""",
    "checkpoint": """
def part{d}(x, a):
    BLOCK
    return x
x = checkpoint(part{d}, x, a, use_reentrant=False)
""",
    "own": """
@tg.custom_gradient
def own{d}(x, a):
    return x * a, lambda g: (g * a, (g * x).sum())
x = own{d}(x, a)
BLOCK
""",
}

# With a gradient that is taken inside eager PyTorch refuses these.
_APART = {"gradient": {"own", "checkpoint"}}


def fits(*names: str) -> bool:
    """Whether constructs can stand in each other."""
    return not any(_APART.get(a, set()) & set(names) for a in names)


def _put(text: str, block: list[str], depth: int) -> list[str]:
    """The lines of a construct around a block."""
    lines = []
    for line in text.strip("\n").splitlines():
        pad = line[: len(line) - len(line.lstrip())]
        one = line.replace("{d}", str(depth))
        lines += [pad + b for b in block] if line.strip() == "BLOCK" else [one]
    return lines


def source(*names: str) -> str:
    """The text of a function `f(x, w, a, n)` of constructs in each other, from the outermost."""
    block = [INNERMOST]
    for depth, name in reversed(list(enumerate(names))):
        block = _put(CONSTRUCTS[name], block, depth)
    head = "import torch\nimport tograph as tg\nfrom torch.utils.checkpoint import checkpoint\n\n\n"
    return head + "\n".join(
        ["def f(x, w, a, n):", *("    " + line for line in block), "    return x", ""]
    )
