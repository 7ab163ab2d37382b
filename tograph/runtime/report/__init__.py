"""One self-contained HTML page about a trace: sources, graph, program, kernels, times, retraces.

``collect`` gathers plain data from a concrete function; ``page`` puts it, with ``page.css`` and ``page.js``, into
``page.html``. The page loads nothing from anywhere. The picture of the graph is laid out and drawn by ``page.js``.
"""

from .collect import Extras, collect
from .page import write

__all__ = ["Extras", "collect", "write"]
