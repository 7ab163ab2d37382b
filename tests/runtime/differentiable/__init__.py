"""Functions `f(x, w, n)` of every construct that has a derivative: `x` is a vector of 2, `w` 2 by 2, `n` a trip count. A module holds those of one kind in `CONSTRUCTS`.

Conditions stay away from where they change, so that finite differences say something.
"""


def stops(f):
    """A function some of whose paths are cut for gradients: finite differences say something else, eager PyTorch the same."""
    f.differences = False
    return f


def unsaved(f):
    """A function that calls Python when its graph runs: no text and no file holds that."""
    f.saved = False
    return f
