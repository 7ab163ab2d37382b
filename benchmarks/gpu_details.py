"""What tells why a part of ``benchmarks/gpu.py`` has gone wrong: its error in full, the plans that it has made, and their kernels.

A worker writes it behind each such part. What it has planned in a part that measures nothing is in a file of its own at once, for the case that it does not come to that:
the parent takes it from there when a worker dies or hangs.
"""

from __future__ import annotations

import contextlib
import os
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tograph.runtime.gpu import planner
from tograph.runtime.gpu.plan import Run
from tograph.runtime.kernels import device

NAME = "gpu_details.txt"
MOST = 1 << 18  # bytes of one part
WHOLE = 12 << 20  # bytes of the file


class Details:
    """``file``: where parts that go wrong are told; ``now``: where the plans of the part that runs are, if anywhere."""

    def __init__(self, file: Path | None, now: Path | None = None):
        self.file, self.now = file, now
        self._plans: list[Any] = []
        self._starts: dict[str, str] = {}

    @contextlib.contextmanager
    def part(self) -> Iterator[None]:
        """A scope in which plans are noted, and kernels that start outside of plans."""
        self._plans, self._starts = [], {}
        plan, launch = planner.plan, device.launch
        if self.now is not None:
            self.now.write_text("")

        def planned(*args: Any, **kwargs: Any) -> Any:
            made = plan(*args, **kwargs)
            self._plans.append(made)
            if self.now is not None:
                with self.now.open("a") as file:
                    file.write(shown(made))
            return made

        def launched(source: Any, arguments: Any) -> None:
            self._starts[source.name] = source.text
            launch(source, arguments)

        planner.plan, device.launch = planned, launched
        try:
            yield
        finally:
            planner.plan, device.launch = plan, launch

    def write(self, title: str, error: BaseException | None) -> None:
        """Tell what there is to know of the part."""
        lines = ["".join(traceback.format_exception(error))] if error is not None else []
        lines += map(shown, self._plans)
        told = "".join(lines)
        lines += [f"\n{text}" for text in self._starts.values() if text not in told]
        append(self.file, title, "\n".join(lines))


def append(file: Path | None, title: str, text: str) -> None:
    """Add a part to the file, in one write: several processes do."""
    if file is None or (file.exists() and file.stat().st_size > WHOLE):
        return
    with contextlib.suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        data = f"\n==== {title}\n\n{text}\n".encode(errors="replace")[:MOST]
        number = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(number, data)
        finally:
            os.close(number)


def shown(plan: Any) -> str:
    """A plan and its kernels, each once. What goes wrong here is no failure of the part."""
    try:
        sources = dict.fromkeys(s.source.text for s, _ in plan.walk() if isinstance(s, Run))
        return "\n\n".join([str(plan), *sources]) + "\n"
    except (
        Exception
    ) as error:  # whatever a spoilt plan raises: the report of what went wrong goes on without it
        return f"a plan that cannot be shown: {error}\n"
