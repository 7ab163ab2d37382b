"""The names that pieces of syntax bind: statements, parameters, type parameters, targets of comprehensions."""

from .syntax import gast


def binds(node: gast.AST) -> list[str]:
    """The names that one node binds, or unbinds, in the function that it belongs to."""
    if isinstance(node, gast.Name):
        return [] if isinstance(node.ctx, gast.Load) else [node.id]
    if isinstance(node, gast.FunctionDef | gast.AsyncFunctionDef | gast.ClassDef):
        return [node.name]
    if isinstance(node, gast.alias):
        return [(node.asname or node.name).partition(".")[0]]
    if isinstance(node, gast.ExceptHandler) and node.name is not None:
        return [getattr(node.name, "id", node.name)]
    return []


def target_names(target: gast.AST) -> list[str]:
    """The names that a comprehension target binds."""
    if isinstance(target, gast.Name):
        return [target.id]
    parts = getattr(target, "elts", None) or [getattr(target, "value", None)]
    if isinstance(target, gast.Tuple | gast.List | gast.Starred):
        return [name for part in parts if part is not None for name in target_names(part)]
    return []


def type_params(node: gast.AST) -> list[str]:
    """The names of the type parameters of a function, class or type alias (Python 3.12)."""
    return [param.name for param in getattr(node, "type_params", None) or ()]


def parameters(args: gast.arguments) -> list[gast.Name]:
    """The parameters in the order of the signature."""
    parts = [*args.posonlyargs, *args.args, args.vararg, *args.kwonlyargs, args.kwarg]
    return [part for part in parts if part is not None]
