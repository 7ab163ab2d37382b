"""Long loops of Python's, a ``for`` over a range or a ``while``: when the iterations repeat themselves, all behind the first one are staged.

An unrolled loop is traced, differentiated, compiled and kept once for each iteration, and there may be thousands of them; as a ``While`` of the graph it is one body.
Python's loop begins as written. Once an iteration has recorded what the one before it did (``control_flow.Repeats``), and all of them would make
``WORTH`` nodes, those behind the first one are undone, and staged as a loop over ``tg.range`` is, with staged numbers for the item and for what counts along. How many
follow is not known of a ``while``: ``MANY`` come first.
The first one stays: it makes what the others find (momentum, a total that was 0 before).

Nobody has asked for that, so it must not be seen but by its speed: what the graph's loop refuses, or anything else that is raised while it is
traced, undoes it, and Python goes on. Where something behind the loop fails, or the graph would refuse a run, the function is traced again with all loops unrolled
(``Retrace.straight``). Loops that call code which is not converted stay unrolled: it runs once for each iteration.
"""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType
from typing import Any

from ..runtime import control_flow
from ..runtime.guarding import unconverted
from ..runtime.symbols.funcgraph import current_graph

WORTH = 300  # so many nodes are worth a loop of the graph
LEAST = 10  # iterations; fewer are compiled as they are
MANY = 12  # iterations of a loop of which the number is not known; as many again, and more, are taken to follow


class LongLoop:
    """One loop of Python's, of ``count`` iterations if that is known, with the code of its body.

    ``places()``: the variables of the loop; ``stage(done)`` stages it behind so many iterations.
    """

    def __init__(
        self,
        count: int | None,
        code: CodeType,
        places: Callable[[], Any],
        stage: Callable[[int], None],
    ):
        self.count, self.places, self.stage, self.code = count, places, stage, code
        self.over = False  # the rest of the loop was staged
        self.done = 0
        self.root = current_graph().root
        self.attempt: control_flow.Attempt | None = None  # the iterations behind the first one
        self.watched = not self.root.straight and code not in self.root.unstaged
        self.repeats = control_flow.Repeats()
        self.first = 0  # what ``Root.spared`` was behind the first iteration
        self.foreign = 0

    def ended(self) -> int:
        """An iteration has ended: how many are done now, all where the rest was staged (``over``)."""
        self.done += 1
        if not self.watched:
            return self.done
        alike = self.repeats.ended()
        if self.attempt is None:
            self.foreign = unconverted.foreign_calls()
        if not self._is_worth():
            self.close()
        elif self.attempt is None:
            self.attempt, self.first = control_flow.Attempt(self.places()), self.root.spared
        elif alike and (self.count is not None or self.done >= MANY):
            return self._staged(self.attempt)
        return self.done

    def _is_worth(self) -> bool:
        left = self._left()
        known = self.done < control_flow.SEEN and self.foreign == unconverted.foreign_calls()
        return known and left >= LEAST and left * self.repeats.size >= WORTH

    def _left(self) -> int:
        return 4 * MANY if self.count is None else self.count - self.done

    def close(self) -> None:
        """The loop is left as Python's: what its iterations did stays."""
        self.watched = False
        if self.attempt is not None:
            self.attempt.commit()
            self.attempt = None

    def _staged(self, repeated: control_flow.Attempt) -> int:
        self.attempt, self.watched, self.root.repeated = None, False, True
        if repeated.lasts():
            repeated.commit()
        else:
            repeated.undo()
            self.done, self.root.spared = 1, self.first
        before = self.root.spared
        attempt = control_flow.Attempt(self.places())
        try:
            with control_flow.alternative():
                self.stage(self.done)
        except Exception:  # a refusal, what C code says of a staged number, or the program's own
            # The last of these comes again, from Python's loop, which goes on in each case.
            attempt.undo()
            self.root.spared = before
            self.root.unstaged.add(self.code)
            return self.done
        except BaseException:
            attempt.commit()
            raise
        attempt.commit()
        self.over = True
        inner = self.root.spared - before  # of loops in the body
        self.root.spared = before + self._left() * (self.repeats.size + inner)
        return self.done
