"""Import directions: `samples, tests -> tograph -> converters -> {transpiler, runtime}`.

Inside runtime a package imports only from those before it in ORDER.
"""

import ast
import graphlib
import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
HALVES = ("converters", "transpiler", "runtime")
FORBIDDEN = {
    "converters": {"tests", "samples", ""},
    "transpiler": {"tests", "samples", "", "converters", "runtime", "torch"},
    "runtime": {"tests", "samples", "", "converters", "transpiler"},
    "": {"tests", "samples"},
    "leaf": {"tests", "samples", "converters", "transpiler", "runtime", ""},
}
ORDER = """graph display inference passes kernels symbols values report diagnosis writes recording guarding containers gradients control_flow
library autodiff native gpu interchange execution traces functions saved""".split()
OUTSIDE = -1  # of runtime
LEVEL = {name: level for level, name in enumerate(ORDER)}
ONE_FILE_ONLY = {"gast", "astunparse", "triton", "llvmlite", "cuda", "safetensors"}


LEAVES = {
    f"tograph.{name}"
    for name in "collector disk errors forks lazy settings stacks syntax_trees".split()
}
# They import nothing of the package: anyone may import them.


def layer(module):
    """The layer of a name: a half of the package, "" for the rest of it, else its top name."""
    if module in LEAVES:
        return "leaf"
    top, *rest = module.split(".")
    return top if top != "tograph" else next((half for half in HALVES if rest[:1] == [half]), "")


def runtime_level(module):
    parts = module.split(".")
    return LEVEL.get(parts[2]) if parts[:2] == ["tograph", "runtime"] and parts[2:] else OUTSIDE


def is_lazy(node):
    return isinstance(node, ast.Call) and getattr(node.func, "id", "").endswith("lazy_module")


FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def imports_in(tree):
    """The imports of a module, whether each is inside a function, and whether it is under ``if TYPE_CHECKING``: it names what a module is given, and does not run."""
    todo = [(tree, False, False)]
    while todo:
        node, inside, names_only = todo.pop()
        if isinstance(node, ast.Import | ast.ImportFrom) or is_lazy(node):
            yield node, inside, names_only
        inside = inside or isinstance(node, FUNCTIONS)
        checked = isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING"
        for child in ast.iter_child_nodes(node):
            if not isinstance(child, ast.Name | ast.Constant | ast.expr_context):
                todo.append((child, inside, names_only or (checked and child in node.body)))


def imported(node, module, modules):
    """The modules that an import names; the name in `from package import name` may be one."""
    if is_lazy(node):
        is_package = modules[module].endswith("__init__.py")
        package = module if is_package else module.rpartition(".")[0]
        return [importlib.util.resolve_name(node.args[0].value, package)]
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    package = module.split(".")[: -node.level or None]
    if node.level and modules[module].endswith("__init__.py"):
        package = module.split(".")[: 1 - node.level or None]
    base = ".".join((package if node.level else []) + ([node.module] if node.module else []))
    names = [f"{base}.{alias.name}" for alias in node.names]
    return [name if name in modules else base for name in names]


def check(sources, paths=None):
    """The violations in {module: source}; `paths` tells which modules are packages."""
    modules = {module: (paths or {}).get(module, module) for module in sources}
    edges, users = {}, {name: set() for name in ONE_FILE_ONLY}
    problems = [f"{m}: its package is not in ORDER" for m in sources if runtime_level(m) is None]
    for module, source in sources.items():
        for node, inside, names_only in imports_in(ast.parse(source)):
            if inside:
                problems.append(f"{module}:{node.lineno}: import inside a function")
            for target in imported(node, module, modules):
                if target != module and target in modules and not names_only:
                    edges.setdefault(module, set()).add(target)
                if layer(target) in FORBIDDEN.get(layer(module), ()):
                    problems.append(f"{module}:{node.lineno}: imports {target}")
                low, high = runtime_level(module), runtime_level(target)
                same = module.split(".")[:3] == target.split(".")[:3]
                ordered = None in (low, high) or OUTSIDE in (low, high) or low > high or same
                if not ordered and not names_only:
                    problems.append(f"{module}:{node.lineno}: imports {target}, against the order")
                if target.split(".")[0] in users:
                    users[target.split(".")[0]].add(module)
    problems += [
        f"{name} imported in {sorted(u)}" for name, u in sorted(users.items()) if len(u) > 1
    ]
    try:
        graphlib.TopologicalSorter(edges).prepare()
    except graphlib.CycleError as error:
        problems.append("cycle: " + " -> ".join(reversed(error.args[1])))
    return problems


def test_layers():
    paths = {}
    for path in sorted((ROOT / "tograph").rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        paths[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = str(path)
    assert check({module: Path(path).read_text() for module, path in paths.items()}, paths) == []


MAPPED = ["converters", "runtime", "transpiler"]
UNMAPPED = {"passes", "report", "diagnosis", "containers"}  # a list of passes, or a few names
MAPPED += [f"runtime/{name}" for name in ORDER if name not in UNMAPPED]


@pytest.mark.parametrize("package", MAPPED)
def test_the_docstring_of_a_package_is_a_map_of_it(package):
    folder = ROOT / "tograph" / package
    text = ast.get_docstring(ast.parse((folder / "__init__.py").read_text()))
    named = set(re.findall(r"``(\w+)``", text))
    modules = {p.stem for p in folder.glob("*.py")} | {p.parent.name for p in folder.glob("*/__init__.py")}  # fmt: skip
    assert modules - {"__init__"} - named == set()


@pytest.mark.parametrize(
    ("problem", "sources"),
    [
        (
            "imports tograph.converters.if_",
            {"tograph.runtime.graph.ir": "from ...converters import if_"},
        ),
        ("imports tograph.transpiler", {"tograph.runtime.graph.ir": "import tograph.transpiler"}),
        (
            "imports tograph.transpiler",
            {"tograph.runtime.graph.ir": "from tograph import transpiler"},
        ),
        (
            "imports tograph.transpiler",
            {"tograph.runtime.graph.ir": 'x = lazy_module("...transpiler", __package__)'},
        ),
        ("inside a function", {"tograph.a": 'def f():\n    lazy_module("os")'}),
        ("gast imported", {"tograph.a": "import gast", "tograph.b": 'g = lazy_module("gast")'}),
        ("imports torch", {"tograph.transpiler.cfg": "import torch.nn"}),
        ("imports tograph.runtime", {"tograph.transpiler.cfg": "from ..runtime import types"}),
        ("imports tograph", {"tograph.converters.if_": "import tograph"}),
        ("imports tests", {"tograph.api": "from tests import helpers"}),
        ("against the order", {"tograph.runtime.graph.ops": "from ..passes import dce"}),
        ("against the order", {"tograph.runtime.passes.dce": "from ..functions import function"}),
        (
            "against the order",
            {"tograph.runtime.graph.ir": "from tograph.runtime.passes.dce import dce"},
        ),
        ("not in ORDER", {"tograph.runtime.other.types": ""}),
        ("inside a function", {"tograph.a": "def f():\n    if f:\n        import os"}),
        ("inside a function", {"tograph.a": "class C:\n    def f(self):\n        import os"}),
        ("gast imported", {"tograph.a": "import gast", "tograph.b": "from gast import Name"}),
        ("cuda imported", {"tograph.a": "import cuda.bindings", "tograph.b": "from cuda import x"}),
        ("cycle: ", {"tograph.a": "from tograph import b", "tograph.b": "import tograph.a"}),
        (
            "imports tograph.transpiler",
            {"tograph.runtime.graph.ir": "if TYPE_CHECKING:\n    import tograph.transpiler"},
        ),
        (
            "cycle: ",
            {
                "tograph.runtime.library.debug": "from . import x",
                "tograph.runtime.library.x": "from .debug import d",
            },
        ),
    ],
)
def test_checker_finds(problem, sources):
    everything = {name: "" for name in ("tograph.converters.if_", "tograph.transpiler")}
    everything |= {
        f"tograph.runtime.{name}": ""
        for name in ("graph.types", "graph.ir", "passes.dce", "functions.function")
    }
    found = check(everything | sources)
    assert len(found) == 1
    assert problem in found[0]


def test_checker_accepts():
    sources = {
        "tograph.runtime.graph.types": "import torch",
        "tograph.runtime.graph.ir": "from .types import Tensor",
        "tograph.runtime.passes.dce": "from ..graph import ir\nfrom . import helper",
        "tograph.runtime.passes.helper": "from ..graph.ir import Graph",
        "tograph.runtime.library.debug": "",
        "tograph.converters.if_": "from ..runtime.graph import ir\nimport torch",
        "tograph.transpiler.cfg": "import gast",
        "tograph.api": "from tograph.converters import if_",
        "tograph.runtime.graph.a": "from . import b",
        "tograph.runtime.graph.b": "if TYPE_CHECKING:\n    from .a import A",
        "tograph.runtime.values.c": "if TYPE_CHECKING:\n    from ..writes import mutation",
        "tograph.runtime.writes.mutation": "",
    }
    assert check(sources) == []
