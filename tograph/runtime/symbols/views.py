"""The steps that lead from the memory of a tensor to what it shows of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..inference.infer import infer
from ..inference.shapes import Meta


@dataclass(frozen=True)
class View:
    """One step of a view chain: ``op(base, *args, **kwargs)``, its ``index``-th output.

    ``quiet``: autograd does not count the writes through it, which are those through ``x.data``. ``unsure``: eager PyTorch may copy here,
    see ``open_layouts``. ``proved``: what a slice between numbers of the run gives, where its size is known all the same, ``guarded``: see ``recording.parts``.
    """

    func: Any
    args: tuple
    kwargs: dict
    index: int | None
    base: Meta
    quiet: bool = False
    unsure: bool = False
    proved: Meta | None = None
    guarded: bool = False

    def shown(self) -> Any:
        """The meta of what it gives, or of all that its op gives."""
        if self.proved is not None:
            return self.proved
        return infer(self.func, (self.base, *self.args), self.kwargs)
