"""The memory plan: where temporaries live in one block of memory that a program keeps.

Offsets are handed out while code is written, in the order in which the code runs, so a place is free again as soon as
the last use of its tensor has been written. An owner is an allocation; a tensor may have several (after a branch it
is one of two), and an allocation is freed when no tensor is left that may be in it. Memory from outside, such as that of an
argument, has no owner; what may be in it or in an allocation has the owner ``OUTSIDE`` too, which more than one tensor holds at all times.
"""

from __future__ import annotations

from bisect import bisect_left

ALIGN = 64
OUTSIDE = 0


class Arena:
    """First fit over the free gaps; ``size`` is the most that was ever in use.

    Gaps are kept in order, and none of them touches another one or ``_end``, behind which all is free.
    """

    def __init__(self) -> None:
        self.size = 0
        self._gaps: list[tuple[int, int]] = []  # where each begins and ends
        self._end = 0
        self._places: dict[int, tuple[int, int]] = {}
        self._holders: dict[int, int] = {OUTSIDE: 2}
        self._count = 0

    def allocate(self, nbytes: int) -> tuple[int, int]:
        """(owner, offset) of new memory, which nobody holds yet."""
        nbytes = (max(nbytes, 1) + ALIGN - 1) // ALIGN * ALIGN
        offset = self._room(nbytes)
        self._count += 1
        self._places[self._count], self._holders[self._count] = (offset, nbytes), 0
        self.size = max(self.size, offset + nbytes)
        return self._count, offset

    def _room(self, nbytes: int) -> int:
        """Take the first place with so much room."""
        for i, (start, end) in enumerate(self._gaps):
            if end - start >= nbytes:
                rest = [(start + nbytes, end)] if end - start > nbytes else []
                self._gaps[i : i + 1] = rest
                return start
        self._end += nbytes
        return self._end - nbytes

    def _free(self, start: int, nbytes: int) -> None:
        """Give a place back, to the gaps beside it."""
        gaps, end = self._gaps, start + nbytes
        after = bisect_left(gaps, (start, end))
        before = after
        if after < len(gaps) and gaps[after][0] == end:
            end = gaps[after][1]
            after += 1
        if before and gaps[before - 1][1] == start:
            before -= 1
            start = gaps[before][0]
        if end == self._end:
            self._end = start
            del gaps[before:after]
        else:
            gaps[before:after] = [(start, end)]

    def pin(self) -> int:
        """An owner for memory that is elsewhere: its holders are counted, it takes no room."""
        self._count += 1
        self._places[self._count], self._holders[self._count] = (0, 0), 1
        return self._count

    def mark(self) -> int:
        """An owner for memory that is elsewhere, which nobody holds yet."""
        self._count += 1
        self._places[self._count], self._holders[self._count] = (0, 0), 0
        return self._count

    def either(self, *owners: frozenset[int]) -> frozenset[int]:
        """The owners of a tensor that is in one of several places."""
        found = frozenset[int]().union(*owners)
        return found if not found or all(owners) else found | {OUTSIDE}

    def exists(self, owner: int) -> bool:
        """Whether memory is still held, or was not held yet."""
        return owner in self._holders

    def holders(self, owner: int) -> int:
        return self._holders[owner]

    def hold(self, owners: frozenset[int]) -> None:
        for owner in owners:
            self._holders[owner] += 1

    def release(self, owners: frozenset[int]) -> None:
        """One holder fewer; memory without holders is free."""
        for owner in owners:
            self._holders[owner] -= 1
            if not self._holders[owner]:
                del self._holders[owner]
                start, nbytes = self._places.pop(owner)
                if nbytes:
                    self._free(start, nbytes)
