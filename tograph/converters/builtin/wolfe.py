"""The line search of ``torch.optim.LBFGS``: a step that meets the strong Wolfe conditions, as one loop with one evaluation in it.

A bracket of two points is looked for with growing steps, then narrowed: algorithms 3.5 and 3.6 of Nocedal and Wright, Numerical Optimization (2006), with the
interpolation, safeguards and order of torch's own function, so that the steps are the same. That one keeps the bracket in lists whose length depends
on data, and evaluates in three places; a graph would have a copy of the model for each, and of each operation for each kind of list.

A point is a step, and the loss, gradient and slope there. ``low`` is the better end of the bracket (before there is one the last point), ``high`` the
other; ``first`` says which of the two stands first in torch's lists, which decides where both are as good.
"""

from __future__ import annotations

from typing import Any

DECREASE, CURVATURE = 1e-4, 0.9
# The ends of a bracket are at least so far apart, in the parameter that differs most.
SMALLEST = 1e-9


def strong_wolfe(at, t, d, loss, grad, slope, most) -> Any:
    """(loss, gradient, step, evaluations) of a search along ``d`` that begins with the step ``t``; ``at(t)`` gives loss and gradient."""
    reach = float(d.abs().max())
    low_t, low_f, low_g, low_s = 0.0, loss, grad, slope
    high_t, high_f, high_g, high_s = 0.0, loss, grad, slope
    zooming, first, stuck = False, True, False
    tries, evaluations = 0, 0
    while True:
        f, g = at(t)
        s = g.dot(d)
        evaluations += 1
        above = bool(f > loss + DECREASE * t * slope)
        flat = bool(abs(s) <= -CURVATURE * slope)
        if tries == most and not zooming:
            low_t, low_f, low_g, low_s = 0.0, loss, grad, slope
        if ends(zooming, tries, most, above, flat, f, low_f, s):
            high_t, high_f, high_g, high_s = t, f, g, s
            zooming, best = True, (low_f <= high_f if first else high_f <= low_f)
            if best != first:
                low_t, high_t, low_f, high_f = high_t, low_t, high_f, low_f
                low_g, high_g, low_s, high_s = high_g, low_g, high_s, low_s
                first = best
        else:
            if zooming and not flat and bool(s * (high_t - low_t) >= 0):
                high_t, high_f, high_g, high_s = low_t, low_f, low_g, low_s
            before_t, before_f, before_s = low_t, low_f, low_s
            low_t, low_f, low_g, low_s = t, f, g, s
            if flat:
                break
            if not zooming:
                bounds = t + 0.01 * (t - before_t), t * 10
                t = interpolated(before_t, before_f, before_s, t, f, s, *bounds)
        if zooming:
            if tries >= most or abs(high_t - low_t) * reach < SMALLEST:
                break
            t, stuck = inside(low_t, low_f, low_s, high_t, high_f, high_s, stuck)
        tries += 1
    return low_f, low_g, low_t, evaluations


def ends(zooming, tries, most, above, flat, f, low_f, s) -> Any:
    """Whether a new point is the far end of a bracket, not the better one."""
    if zooming:
        return above or f >= low_f
    return tries == most or above or (tries > 1 and f >= low_f) or (not flat and bool(s >= 0))


def interpolated(t1, f1, s1, t2, f2, s2, least, most) -> Any:
    """The minimum between two points of the cubic that they determine, within bounds; their middle where it has none."""
    if t1 > t2:
        t1, f1, s1, t2, f2, s2 = t2, f2, s2, t1, f1, s1
    mean = s1 + s2 - 3 * (f1 - f2) / (t1 - t2)
    square = mean**2 - s1 * s2
    found = (least + most) / 2
    if square >= 0:
        root = square.sqrt()
        found = float(t2 - (t2 - t1) * ((s2 + root - mean) / (s2 - s1 + 2 * root)))
        found = min(max(found, least), most)
    return found


def inside(t1, f1, s1, t2, f2, s2, stuck) -> Any:
    """(the next step in a bracket, whether it lies close to an end): a second one in a row that does is moved away from there."""
    left, right = min(t1, t2), max(t1, t2)
    t = interpolated(t1, f1, s1, t2, f2, s2, left, right)
    margin = 0.1 * (right - left)
    close = min(right - t, t - left) < margin
    if close and (stuck or t >= right or t <= left):
        return (right - margin if abs(t - right) < abs(t - left) else left + margin), False
    return t, close
