"""The memory plan: places are those of first fit, and looking for one does not look at all that is held."""

import random

from tograph.runtime.native.arena import ALIGN, Arena


class _FirstFit:
    """First fit as it is defined: by a look at all places."""

    def __init__(self):
        self.places = {}

    def allocate(self, owner, nbytes):
        nbytes = (max(nbytes, 1) + ALIGN - 1) // ALIGN * ALIGN
        offset = 0
        for start, length in sorted(self.places.values()):
            if start - offset >= nbytes:
                break
            offset = max(offset, start + length)
        self.places[owner] = (offset, nbytes)
        return offset


def test_places_are_those_of_first_fit():
    draw = random.Random(0)
    arena, model = Arena(), _FirstFit()
    for _ in range(2000):
        if model.places and draw.random() < 0.48:
            owner = draw.choice(sorted(model.places))
            del model.places[owner]
            arena.release(frozenset([owner]))
        else:
            nbytes = draw.choice([0, 1, 64, 65, 200, 1000, 5000])
            owner, offset = arena.allocate(nbytes)
            arena.hold(frozenset([owner]))
            assert offset == model.allocate(owner, nbytes)
        ends = [start + length for start, length in model.places.values()]
        assert arena.size >= max(ends, default=0)


def test_memory_elsewhere_takes_no_room():
    arena = Arena()
    pinned = arena.pin()
    first, offset = arena.allocate(64)
    assert offset == 0
    arena.hold(frozenset([first]))
    arena.release(frozenset([pinned]))
    assert arena.allocate(64)[1] == 64


def test_a_place_is_found_among_the_gaps_alone():
    class Counted(dict):
        looks = 0

        def values(self):
            Counted.looks += 1
            return super().values()

    arena = Arena()
    arena._places = Counted()
    for _ in range(100):
        owner, _ = arena.allocate(64)
        arena.hold(frozenset([owner]))
    assert arena.size == 6400
    assert not arena._gaps
    assert Counted.looks == 0
