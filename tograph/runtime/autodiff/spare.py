"""What a node of several results keeps beside torch, which frees all that it has saved with the first gradient.

Results that share no op which saved something (``shares.groups``) have gradients one after the other in eager PyTorch, without ``retain_graph``. Where such results
have one node of autograd, a gradient of some of them finds what it needs here, unless one of their own group has been taken, and freed, before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from ..writes.saving import words

_FREED = "a second time"


class Spare:
    """``used``: the groups of which a gradient was taken, and may have been freed with it."""

    def __init__(self, groups: Sequence[int], tensors: Sequence[torch.Tensor]):
        self.groups = groups
        # not the results themselves, which hold their node
        self.tensors = tuple(x.detach() for x in tensors)
        self.versions = [_version(x) for x in self.tensors]
        self.used: set[int] = set()

    def saved(
        self, by_torch: Callable[[], Sequence[torch.Tensor]], there: Sequence[bool]
    ) -> Sequence[torch.Tensor]:
        """What a gradient of the results ``there`` needs, or torch's error: something of it was freed, or written since."""
        asked = {g for g, t in zip(self.groups, there, strict=True) if t and g >= 0}
        try:
            found = by_torch()
        except RuntimeError as error:
            if _FREED not in str(error) or not self.used.isdisjoint(asked):
                raise
            self.used |= asked
            return self._as_they_were()
        self.used = asked  # what was taken before was retained
        return found

    def _as_they_were(self) -> Sequence[torch.Tensor]:
        for x, version in zip(self.tensors, self.versions):
            if _version(x) != version:
                raise RuntimeError(words(x, version))
        return self.tensors


def _version(x: torch.Tensor) -> int:
    return 0 if x.is_inference() else x._version
