"""The code of a loop that runs block by block: a task for threads, whose units are blocks of elements.

A vector of elements, or a few that do not wait for one another, enters the loop, goes on while the condition holds for its own elements,
and is written when it has ended. Its state stays in registers. Numbers are computed once for an iteration, as the rest of the program computes
them (``inner``). A vector makes ``limit`` iterations at most: then the program, which alone may look for signals, calls the task again.

The block of the task has a slot for each tensor that is read, where each part of the state begins and where it goes, each number, and the four of ``FRAME``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from ..graph.ir import Graph, Value
from ..graph.types import DTYPE_NAMES, ScalarType
from ..kernels.llvm import Plan, Renderer, Target
from ..kernels.llvm_text import Text
from ..kernels.llvm_values import Found
from ..kernels.loop_formulas import size_of
from ..kernels.loop_ir import Affine, Expr, Kernel, Unsupported, ordered
from .block_parts import Parts
from .carries import typed
from .code import REGISTER, Code
from .scalar_parts import cast
from .values import Reg

if TYPE_CHECKING:
    from .lower import Lowering

FRAME = ("limit", "steps", "failed")
HALVES = ("f16", "bf16")


class _Lines(Text):
    """The text of a kernel, written into the code of a function of the program."""

    def __init__(self, code: Code):
        self.code = code
        super().__init__()
        self.lines, self.declarations = code.lines, _Declarations(code)

    @property
    def block(self) -> str:
        return self.code.block

    @block.setter
    def block(self, label: str) -> None:
        self.code.block = label

    def fresh(self) -> str:
        return "%" + self.code.fresh()

    def label(self, stem: str) -> str:
        return self.code.fresh(stem)

    def set(self, text: str) -> str:
        return self.code.do(text)


class _Declarations(dict[str, str]):
    def __init__(self, code: Code):
        super().__init__()
        self.code = code

    def __setitem__(self, name: str, text: str) -> None:
        self.code.declares.setdefault(name.removeprefix("@"), text)


class Task(Renderer):
    """Writes the task of a loop. ``slots``: what the slots of its block are, by name: ``start`` and ``place`` of each part of the state, ``number`` of each small input, pK for what the kernel reads."""

    def __init__(self, kernel: Kernel, target: Target, plan: Plan, parts: Parts, inner: Lowering):
        super().__init__(kernel, target, plan)
        self.parts, self.inner, self.code = parts, inner, inner.code
        self.text = _Lines(self.code)
        self.emitter = self.emitter_of(1, None)
        self.given: dict[str, str] = {}  # registers of parameters
        places = {v: f"{'s' if isinstance(v.type, ScalarType) else 'p'}{i}" for i, v in enumerate(parts.region.inputs)}  # fmt: skip
        self.parameters = places
        state = [parts.body.inputs[j] for j in parts.elements]
        self.state = {v: places.get(v, "") for v in state}
        self.small = parts.small
        self.read_only = [places[v] for v in parts.region.inputs if size_of(v) > 1 and v not in self.state]  # fmt: skip
        count = range(len(state))
        self.slots = [*self.read_only, *(f"start{j}" for j in count), *(f"place{j}" for j in count),
                      *(f"number{i}" for i in range(len(self.small))), *FRAME]  # fmt: skip
        self.stored = {v: s.value for v, s in zip(parts.region.outputs, kernel.stores, strict=True)}
        self.address: Affine = kernel.stores[0].address
        self._check()
        moving = {*self.state.values(), *(places[v] for v in parts.region.inputs if size_of(v) == 1 and not self._fixed(v))}  # fmt: skip
        self.moving = _reading(kernel, moving)

    def _fixed(self, v: Value) -> bool:
        """Whether a number is the same in all iterations."""
        given, parts = self.parts.body.inputs, self.parts
        return v in given and given.index(v) not in parts.numbers

    def _check(self) -> None:
        """Unsupported where an element is computed of others of the state, or where elements are no lanes."""
        kernel, lanes = self.kernel, self.plan.lanes
        if kernel.row or kernel.sizes or kernel.may_fail or lanes is None or lanes.size < self.plan.narrow:  # fmt: skip
            raise Unsupported("a loop whose elements are no lanes")
        own = set(self.state.values())
        for e in kernel.body:
            if e.op == "load" and e.name in own and e.address != self.address:
                raise Unsupported("elements that are computed of others")
        if any(s.address != self.address for s in kernel.stores):
            raise Unsupported("elements in several orders")
        known = {*self.stored, *self.state}
        if any(v not in known for v in self.parts.next):
            raise Unsupported("elements that become those of another tensor")

    # ---- the function

    def function(self, name: str) -> str:
        """The text of the function."""
        code, text = self.code, self.text
        for i, slot in enumerate(self.slots):
            self._slot(i, slot)
        most = code.cell("i64")
        code.line(f"store i64 0, ptr {most}")
        self.most = most
        self.settle(frozenset(), 0)
        with text.loop("%begin", "%end", 1) as unit, self.scope():
            self._unit(unit)
        steps = code.do(f"load i64, ptr {most}")
        code.do(f"atomicrmw umax ptr {self.pointers['steps']}, i64 {steps} monotonic")
        code.line("ret void")
        code.label("declined")
        code.line(f"store atomic i64 1, ptr {self.pointers['failed']} monotonic, align 8")
        code.line("ret void")
        body = "\n".join(line for line in code.lines if line)
        comments = "".join(f"; {c}\n" for c in self.kernel.comments)
        return f"{comments}define internal void @{name}(i64 %begin, i64 %end, ptr %slots) #0 {{\n{body}\n}}\n"  # fmt: skip

    def _slot(self, i: int, name: str) -> None:
        code = self.code
        at = code.do(f"getelementptr i64, ptr %slots, i64 {i}")
        if name in ("steps", "failed"):
            self.pointers[name] = at
        elif name == "limit":
            self.limit = code.do(f"load i64, ptr {at}")
        elif name.startswith("number"):
            v = self.small[int(name[6:])]
            self.given[name] = code.load(DTYPE_NAMES[v.type.dtype], at)
            self._give([v], [self._number(v, self.given[name])])
        else:
            self.pointers[name] = code.do(f"load ptr, ptr {at}")

    # ---- values

    def settle(self, known: frozenset[str], level: int) -> None:
        for e in self.kernel.body:
            if e.op != "const" and e not in self.moving and self.kernel.depends(e) <= known:
                self._emit(e)

    def _compute(self, e: Expr) -> str:
        if e.op in ("load", "scalar") and e.name in self.given:
            return self.given[e.name]
        return super()._compute(e)

    # ---- the loop of one vector

    def _point(self, known: frozenset[str]) -> None:
        lane = self.plan.lanes.name
        wide, first, narrow = self.emitter, self.variables[lane], self.plan.narrow
        count = max(wide.width // narrow, 1)
        self.emitter = wide if count == 1 else self.emitter_of(narrow, None)
        firsts = [first, *(self.text.set(f"add nsw i64 {first}, {k * narrow}") for k in range(1, count))]  # fmt: skip
        self.pieces: list[tuple[str, Found, Found]] = [(at, ({}, {}), ({}, {})) for at in firsts]
        starts = []
        for k in range(count):
            with self._piece(k, known):
                starts.append([self.read(self.pointers[f"start{j}"], self._dtype(v), self.address) for j, v in enumerate(self.state)])  # fmt: skip
        self._loop(starts)
        self.emitter, self.variables[lane] = wide, first

    def _dtype(self, v: Value) -> str:
        return DTYPE_NAMES[v.type.dtype]

    @contextmanager
    def _piece(self, k: int, known: frozenset[str] | None = None) -> Iterator[None]:
        """One of the vectors: outside of the loop where ``known`` has what is known there."""
        first, outside, inside = self.pieces[k]
        self.variables[self.plan.lanes.name] = first
        with ExitStack() as stack:
            stack.enter_context(self.scope(outside))
            if known is not None:
                self.settle(known, 0)
            else:
                stack.enter_context(self.scope(inside))
            yield

    def _loop(self, starts: list[list[str]]) -> None:
        code, before = self.code, self.code.block
        head, body, done = (code.fresh(s) for s in ("again", "iteration", "ended"))
        code.jump(head)
        state = [[_Phi(code, self.emitter.type(self._dtype(v))) for v in self.state] for _ in starts]  # fmt: skip
        numbers = [_Phi(code, REGISTER[self._dtype(v)]) if not self._fixed(v) else None for v in self.small]  # fmt: skip
        steps = _Phi(code, "i64")
        given = [p.name if p else self.given[f"number{i}"] for i, p in enumerate(numbers)]
        small = [self._number(v, text) for text, v in zip(given, self.small)]
        going = _Phi(code, "i1")
        late = self.parts.blocks.late
        self._give(self.small, small)
        self._give(self.parts.before.outputs, self._graph(self.parts.before, small))
        if self.parts.mask is not None and not late:
            self._ask(state)
        (holds,) = self._graph(self.parts.test, small)
        below = code.do(f"icmp slt i64 {steps.name}, {self.limit}")
        holds = code.do(f"and i1 {self.inner.numbers.truth(holds)}, {below}")
        code.branch(holds, body, done)
        code.label(body)
        self._give(self.parts.used.outputs, self._graph(self.parts.used, small))
        goes = self._ask(state) if late else "true"
        following = self._graph(self.parts.step, small)
        made = [self._next(k, row) for k, row in enumerate(state)]
        more = code.do(f"add nuw nsw i64 {steps.name}, 1")
        end = code.block
        code.line(f"br label %{head}")
        changed = [p for p in numbers if p is not None]
        for phi, j, x in zip(changed, self.parts.numbers, following, strict=True):
            i = self.small.index(self.parts.body.inputs[j])
            phi.fill((self.given[f"number{i}"], before), (typed(self.small[i], x).text, end))
        for row, first, last in zip(state, starts, made):
            for phi, a, b in zip(row, first, last, strict=True):
                phi.fill((a, before), (b, end))
        steps.fill(("0", before), (more, end))
        going.fill(("true", before), (goes, end))
        code.label(done)
        self._leave(state, steps.name, going.name)

    def _number(self, v: Value, text: str) -> Reg:
        size = None if isinstance(v.type, ScalarType) else tuple(v.type.shape)
        return Reg(text, self._dtype(v), size)

    def _give(self, values: Sequence[Value], found: Sequence[Reg]) -> None:
        """Let registers be the parameters of the kernel that stand for values."""
        for v, x in zip(values, found, strict=True):
            if v in self.parameters:
                text = typed(v, x).text
                # a kernel's register of a half type holds an f32
                self.given[self.parameters[v]] = cast(self.code, text, x.dtype, "f32") if x.dtype in HALVES else text  # fmt: skip

    def _graph(self, graph: Graph, small: Sequence[Reg]) -> list[Reg]:
        """Write a graph of numbers."""
        return [self.inner.register(x) for x in self.inner.region(graph, small, {})]

    def _take(self, row: Sequence[_Phi]) -> None:
        """Let a vector's state be the parameters that stand for it."""
        self.given |= {name: phi.name for name, phi in zip(self.state.values(), row) if name}

    def _ask(self, state: list[list[_Phi]]) -> str:
        """Bind what the elements are asked; whether they go on, as far as that tells."""
        parts, masks = self.parts, []
        for k, row in enumerate(state):
            with self._piece(k):
                self._take(row)
                masks.append(self._value(parts.mask, row))
        found = self._asked(masks)
        for v in parts.answers:
            self.inner.bind(v, Reg(found, "bool", ()))
        return found if parts.blocks.wanted else self.code.do(f"xor i1 {found}, true")

    def _asked(self, masks: list[str]) -> str:
        """Whether any, or all, of the elements have the mask; those that are not there have it as the others need it."""
        e, wanted = self.emitter, self.parts.blocks.wanted
        word, kind = ("or" if wanted else "and"), e.type("bool")
        found, *rest = masks
        for m in rest:
            found = e.binary(word, "bool", found, m)
        if e.width == 1:
            return found
        if e.mask is not None:
            away = e.mask if wanted else e.binary("xor", "bool", e.mask, e.const(True, "bool"))
            found = e.binary("and" if wanted else "or", "bool", found, away)
        name = f"llvm.vector.reduce.{word}.v{e.width}i1"
        self.code.declare(name, f"i1 {{}}({kind})")
        return self.code.do(f"call i1 @{name}({kind} {found})")

    def _value(self, v: Value, row: Sequence[_Phi]) -> str:
        """The register of elements that nodes make, or that the iteration begins with."""
        if v in self.stored:
            return self.value(self.stored[v])
        return row[list(self.state).index(v)].name

    def _next(self, k: int, row: Sequence[_Phi]) -> list[str]:
        with self._piece(k):
            self._take(row)
            return [self._value(v, row) for v in self.parts.next]

    def _leave(self, state: list[list[_Phi]], steps: str, going: str) -> None:
        """Write what a vector has ended as, and twice how many iterations that took; one more where the last one's answer was to go on."""
        code = self.code
        for k, row in enumerate(state):
            with self._piece(k):
                for j, (v, phi) in enumerate(zip(self.state, row)):
                    super().write(
                        self.pointers[f"place{j}"], self._dtype(v), self.address, phi.name
                    )
        code.declare("llvm.umax.i64", "i64 {}(i64, i64)")
        steps = code.do(f"shl i64 {steps}, 1")
        steps = code.do(f"or i64 {steps}, {code.do(f'zext i1 {going} to i64')}")
        old = code.do(f"load i64, ptr {self.most}")
        code.line(f"store i64 {code.do(f'call i64 @llvm.umax.i64(i64 {old}, i64 {steps})')}, ptr {self.most}")  # fmt: skip


class _Phi:
    """A phi whose sources are known later."""

    def __init__(self, code: Code, kind: str):
        self.code, self.kind, self.name, self.place = code, kind, "%" + code.fresh("phi"), code.later()  # fmt: skip

    def fill(self, *sources: tuple[str, str]) -> None:
        given = ", ".join(f"[{x}, %{block}]" for x, block in sources)
        self.code.fill(self.place, f"{self.name} = phi {self.kind} {given}")


def _reading(kernel: Kernel, names: set[str]) -> set[Expr]:
    """The expressions that depend on parameters."""
    found: set[Expr] = set()
    for e in ordered(kernel.body):
        if (e.op in ("load", "scalar") and e.name in names) or any(a in found for a in e.operands()):  # fmt: skip
            found.add(e)
    return found


__all__ = ["FRAME", "Task"]
