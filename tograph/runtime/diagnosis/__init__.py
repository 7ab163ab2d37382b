"""What a person reads when something goes wrong: the user's frames, what was found, and what to change.

Model. An exception keeps its type, arguments and message. ``shown`` takes the library's frames out of its
traceback and adds one note: the user's frames (``*`` converted, ``**`` run as written), a caret under the
expression, what the names in it hold (``found``), and advice (``advice``). ``at_run_time`` adds the note for an
op that failed while a graph ran: the node, and the user's line that made it. An exception that is raised in a staged
branch or loop becomes a node; ``explained`` is its note, kept for the time when the graph raises it.

Invariants: an exception gets at most one note; nothing here evaluates the user's code (properties, ``__getattr__``);
with ``TOGRAPH_DEBUG`` at 1 or more every frame stays.
"""

from .notes import at_run_time, explained, shown

__all__ = ["at_run_time", "explained", "shown"]
