"""What ``torch.optim.LBFGS`` keeps from step to step, as tensors of fixed sizes that a graph reads and writes.

torch keeps lists of directions whose lengths depend on data. Here they are rows of two matrices, used in a ring: the oldest
of ``count`` rows is row ``head``. A step in a graph counts in an attribute (``stepped``), a change that a call makes when its graph is done,
or by a commit; making it puts what torch's own step would have left into ``optimizer.state``: its lists hold views of the rows. So the
optimiser is saved, loaded, and stepped outside of a graph, as ever, and each call begins with what somebody else has left there since (``follow``).
An optimiser that the traced function makes begins anew at each call: ``Passing``.
"""

from __future__ import annotations

import weakref
from typing import Any

import torch

from ..guarding import reads, sources
from ..recording.tracing import suspended
from ..symbols.funcgraph import is_tracing
from ..values import locations


class Passing:
    """The tensors of one optimiser: ``dirs`` and ``steps`` [history, n], ``ro`` [history], ``d`` and ``grad`` [n]; the others are 0-d.

    Those of an optimiser that each call makes anew are values of the graph, and nobody sees them outside of it.
    """

    __tograph_opaque__ = True

    def __init__(self, optimizer: torch.optim.LBFGS):
        like, rows, n = (
            _first(optimizer),
            optimizer.param_groups[0]["history_size"],
            optimizer._numel(),
        )
        like = torch.view_as_real(like) if like.is_complex() else like
        self.dirs, self.steps = (like.detach().new_zeros(rows, n) for _ in range(2))
        self.ro, self.d, self.grad, self.h_diag = (like.detach().new_zeros(s) for s in (rows, n, n, ()))  # fmt: skip
        self.t, self.prev_loss = (torch.zeros((), dtype=torch.float64) for _ in range(2))
        self.count, self.head, self.n_iter, self.func_evals = (torch.zeros((), dtype=torch.int64) for _ in range(4))  # fmt: skip


class Directions(Passing):
    """Those of an optimiser that existed before the call, beside its ``state``."""

    def __init__(self, optimizer: torch.optim.LBFGS):
        super().__init__(optimizer)
        self.optimizer = weakref.ref(optimizer)
        self._lists: dict[str, list[Any]] = {"old_dirs": [], "old_stps": [], "ro": []}
        self._noted, self.stepped = -1, 0
        self._rows = tuple(x.unbind() for x in (self.dirs, self.steps, self.ro))

    def state(self) -> dict[str, Any]:
        """What the optimiser has for its first parameter: for all of them, as torch has it."""
        optimizer = self.optimizer()
        return {} if optimizer is None else optimizer.state.get(_first(optimizer), {})

    def current(self) -> bool:
        """Whether the optimiser's state is what the last step in a graph left."""
        return self.state().get("func_evals", 0) == self._noted

    def follow(self) -> bool:
        """Take what somebody else has left in the optimiser's state; False where there is no room for it."""
        if not self.current():
            if len(self.state().get("old_dirs") or ()) > len(self.ro):
                return False
            with torch.no_grad():
                self.take()
        return True

    def take(self) -> None:
        """Copy the optimiser's state, which somebody else has changed."""
        state = self.state()
        kept = len(state.get("old_dirs") or ())
        for whole, name in ((self.dirs, "old_dirs"), (self.steps, "old_stps"), (self.ro, "ro")):
            if kept:
                whole[:kept] = torch.stack([torch.as_tensor(x) for x in state[name]])
        self.count.fill_(kept)
        self.head.fill_(0)
        for name, place in (("d", self.d), ("prev_flat_grad", self.grad)):
            if state.get(name) is not None:
                place.copy_(state[name])
        for name in ("n_iter", "func_evals", "t", "prev_loss"):
            getattr(self, name).fill_(state.get(name) or 0)
        self.h_diag.fill_(state.get("H_diag", 1))
        self._noted = state.get("func_evals", 0)

    @property
    def stepped(self) -> Any:
        """The steps that the call, while it is traced, has made; 0 between calls."""
        return self.__dict__["stepped"]

    @stepped.setter
    def stepped(self, count: Any) -> None:
        running = not is_tracing()
        self.__dict__["stepped"] = 0 if running else count
        if running and count:
            self.note()

    def note(self) -> None:
        """Put the state after a step into the optimiser."""
        numbers = (self.n_iter, self.func_evals, self.t, self.prev_loss, self.count, self.head)
        n_iter, evals, t, loss, count, head = (x.item() for x in numbers)
        optimizer = self.optimizer()
        if optimizer is None:
            return
        state = optimizer.state[_first(optimizer)]
        self._noted = int(evals)
        state["func_evals"], state["n_iter"] = int(evals), int(n_iter)
        if not n_iter:
            return  # the first gradient was small enough
        order = [(int(head) + i) % len(self.ro) for i in range(int(count))]
        for (name, content), rows in zip(self._lists.items(), self._rows):
            content[:] = [rows[i] for i in order]
            state[name] = content
        state.update(d=self.d, t=t, H_diag=self.h_diag, prev_flat_grad=self.grad, prev_loss=loss)
        if n_iter > 1:
            state.setdefault("al", [None] * len(self.ro))


def _first(optimizer: torch.optim.LBFGS) -> torch.Tensor:
    return optimizer._params[0]


_known: weakref.WeakKeyDictionary[torch.optim.LBFGS, Passing] = weakref.WeakKeyDictionary()


def begin(optimizer: torch.optim.LBFGS) -> None:
    """Make the tensors of an optimiser that traced code has just made, where it made it: loops and branches behind it change them."""
    with torch.no_grad():
        _known[optimizer] = Passing(optimizer)


def directions(optimizer: torch.optim.LBFGS) -> Passing:
    """The tensors of an optimiser, up to date, as each call of the trace finds them."""
    kept = _known.get(optimizer)
    if type(kept) is Passing:
        return kept
    with suspended(), torch.no_grad():
        size = optimizer.param_groups[0]["history_size"]
        if kept is None or len(kept.ro) != size or len(kept.d) != optimizer._numel():
            kept = _known[optimizer] = Directions(optimizer)
        assert isinstance(kept, Directions)
        if not kept.current():
            kept.take()
    watch = reads.current()
    if watch is not None:
        source = sources.object_(kept, "the state of an LBFGS")
        watch.value(kept, source)
        watch.check(source, "followed", "{0}.follow()")
    return kept


def note(kept: Passing) -> None:
    """A step is a change of the optimiser, which each call makes."""
    if isinstance(kept, Directions):
        place = locations.attribute(kept, "stepped")
        place.set(place.get() + 1)
