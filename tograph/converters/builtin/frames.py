"""Frames of the stack: a program sees those of its own functions, and none of what converts and runs them."""

from __future__ import annotations

import inspect
import sys

from ...runtime.diagnosis.frames import outer_frames
from ..registry import handles


@handles(sys._getframe)
def getframe(depth=0, /):
    frames = outer_frames(sys._getframe(1))
    if depth >= len(frames):
        raise ValueError("call stack is not deep enough")
    return frames[max(depth, 0)]


@handles(inspect.currentframe)
def currentframe():
    return getframe()


@handles(inspect.stack)
def stack(context=1):
    return getouterframes(getframe(), context)


@handles(inspect.getouterframes)
def getouterframes(frame, context=1):
    return [_info(f, context) for f in outer_frames(frame)]


def _info(frame, context):
    told = inspect.getframeinfo(frame, context)
    return inspect.FrameInfo(frame, *told, positions=told.positions)
