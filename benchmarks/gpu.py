"""Everything on a GPU, in one command: what is right, then what it costs. Under eight minutes; not yet seen on a GPU.

    python benchmarks/gpu.py [--output benchmarks/results] [--seconds 450] [--only correctness,loops,...] [--cases FOLDER]

Sections (``gpu_sections``), in order:

probes       the first of all: whether kernels start, and conditional nodes work (``gpu_probes``)
assumptions  what else the code takes for granted of driver, torch and Triton, one by one (``gpu_assumptions``)
correctness  every sample and workload with its tensors on the GPU, beside the same call on the CPU; level of each
cases        the conformance cases, where their folder is there
peers        the first calls of torch.compile: what they compile is on disk when ``workloads`` measures
loops        µs of the host for what calls consist of (a start, a graph, a copy); µs per iteration of a While by number of library calls in its body: in one kernel, as a WHILE node whose handle is set by a
             kernel of its own or by the kernel that computes the condition, in chunks
bandwidth    fused kernels as a share of the rate of a device copy
calls        host synchronisations and launches of one call of each workload; 0 synchronisations is the aim of tiers 0 and 1
workloads    each beside eager PyTorch, torch.compile, its mode "reduce-overhead", torch.while_loop, and JAX where it is installed

Each section runs in a process of its own; those from assumptions to peers, which measure nothing that others would disturb, at the same time. A part that raises is a row of the report. One that ends its process, makes the
CUDA context unusable, or gives no answer in time does not take others with it: the section goes on behind it in a new
process. The report, a Markdown page and the same as JSON, is written anew every few seconds, so that what was found is there
whatever ends the script. A section has a part of the time that is left (``SHARES``); it begins nothing in the last seconds of that, and one
line names what it has left out. The report ends with all that went wrong, each with where it did (the innermost frames of an error; of a part that hangs the stack of its
threads; the last words of a process that died), and the versions of what it ran on. ``gpu_details.txt`` beside it has for each of these the error in full, the
plans of the part and their kernels (``gpu_details``): these files are what to send.

Where the machine is there for longer, two commands give all sections more time: ``--only probes,assumptions,correctness,cases --seconds 540``, then
``--only probes,peers,loops,bandwidth,calls,workloads --seconds 540 --output FOLDER`` with another folder. What was compiled is found again by the second one.
Where it is there for 15 minutes, its start included, the one command with what ``--seconds`` it begins with fits, and leaves time for a second of the
sections that showed something: ``--only SECTIONS --seconds 180``. The packages that tograph needs and a machine without a network lacks
(``NEEDED``) travel as wheels beside the checkout; without them the script says which, and ends.

Without a GPU one line says so, and the exit status is 0. ``--device cpu`` tries the script itself.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import importlib.util
import json
import math
import os
import platform
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

if "--worker" in sys.argv:
    faulthandler.enable()
    if hasattr(signal, "SIGUSR1"):  # the parent asks a worker that hangs; that may be in an import
        faulthandler.register(signal.SIGUSR1, all_threads=True)

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]  # from a checkout, installed or not

NEEDED = ("gast", "astunparse")  # by tograph, beside torch and what torch needs
if lacking := [name for name in NEEDED if importlib.util.find_spec(name) is None]:
    sys.exit(
        f"benchmarks/gpu.py: {' and '.join(lacking)} not found: install them, or put their wheels' content on PYTHONPATH"
    )

import gpu_details  # noqa: E402
import gpu_sections  # noqa: E402
import torch  # noqa: E402
from gpu_probes import FUSED, PROBE  # noqa: E402
from gpu_report import report, short, wrong  # noqa: E402
from gpu_worker import MARK, SPOILT, work  # noqa: E402

PAUSE = 5.0  # seconds between two versions of the report
LIMIT = 60.0  # seconds without an answer after which a part is given up
START = 120.0  # the same for the first answer: what a process imports may come from a slow disk
STARTS = 2  # in a row without one, after which a section is given up
TAIL = 12  # lines of what a process that has died or hangs has said last
GRACE = 3.0  # seconds for a process that hangs to say where
SAID = 20_000  # characters of what such a process has said
EAGER = ("probes", "assumptions", "correctness", "cases")  # whose plans are written before they run
TOGETHER = ("assumptions", "correctness", "cases", "peers")  # sections that run at the same time
# The part of the time left that a section may take, those that run together as one; what it leaves is for those behind it.
SHARES = {"probes": 0.2, "loops": 0.3, "bandwidth": 0.3, "calls": 0.4, "workloads": 1.0} | dict.fromkeys(TOGETHER, 0.5)  # fmt: skip


# ---- the parent: workers, the clock, the report


class Run:
    """Rows by section, and the time at which all has to end."""

    def __init__(self, options: argparse.Namespace):
        self.device, self.folder, self.cases = options.device, options.output, options.cases
        self.end = time.monotonic() + options.seconds
        self.sections: dict[str, list[dict[str, Any]]] = {}
        self.name, self._written = options.device, 0.0
        self.said = Path(tempfile.mkdtemp(prefix="tograph-gpu-"))  # what workers write beside rows
        weakref.finalize(self, shutil.rmtree, self.said, ignore_errors=True)
        self._mutex = threading.RLock()

    def add(self, section: str, **fields: Any) -> None:
        with self._mutex:
            self.sections.setdefault(section, []).append(fields)
            self.write()
        if fields.get("result") != "passed":  # of those there are many
            print(
                f"{section:12}",
                "  ".join(f"{k}={short(v)}" for k, v in fields.items()),
                flush=True,
            )

    def write(self) -> None:
        """A new version of the report, where the last one is some seconds old."""
        with self._mutex:
            if time.monotonic() > self._written + PAUSE:
                report(self)
                self._written = time.monotonic()

    def command(self, section: str, skip: int) -> list[str]:
        """What starts a worker."""
        return [
            sys.executable,
            __file__,
            "--worker",
            section,
            "--skip",
            str(skip),
            "--device",
            self.device,
            "--details",
            str(self.details),
            "--now",
            str(self.now(section)),
            "--without",
            self.without,
            "--cases",
            self.cases,
        ]

    @property
    def details(self) -> Path:
        """Where it is told why parts have gone wrong."""
        return self.folder.resolve() / gpu_details.NAME

    def now(self, section: str) -> Path:
        """Where a section that measures nothing tells what it does now; nowhere for others."""
        return self.said / f"{section}.plans" if section in EAGER else Path(os.devnull)

    @property
    def without(self) -> str:
        """The probes that have ended a worker: no other one is to wait for them."""
        rows = self.sections.get("probes", ())
        return "; ".join(r["name"] for r in rows if r.get("name") in (PROBE, FUSED) and "note" in r)

    def all(self, names: Sequence[str]) -> None:
        """The sections, in order, some of them together."""
        known = [n for n in gpu_sections.SECTIONS if n in names]
        together = [n for n in known if n in TOGETHER]
        rest = [n for n in known if n not in TOGETHER and n != "probes"]
        for group in [["probes"] * ("probes" in known), together, *([n] for n in rest)]:
            last = group == (([rest[-1]] if rest else together) or ["probes"])
            threads = [threading.Thread(target=self.section, args=(n, last)) for n in group]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            report(self)

    def section(self, name: str, last: bool) -> None:
        """All parts of a section, in as many processes as it takes."""
        left = self.end - time.monotonic()
        until = time.monotonic() + left * (1.0 if last else SHARES[name])
        skip = tries = 0
        while time.monotonic() < until:
            begun, status = self._worker(name, skip, until)
            if status == 0:
                return
            if begun is not None:
                skip, tries = begun + 1, 0
                continue
            tries += 1
            if tries == STARTS:
                self.add(name, note=f"nothing begins: exit status {status}")
                return
        self.add(name, note="no time left")

    def _worker(self, section: str, skip: int, until: float) -> tuple[int | None, int | None]:
        """(the number of the last part that began, the exit status; None where it was ended)."""
        command, begun, part, rows = self.command(section, skip), None, "", 0
        command += ["--until", str(time.time() + until - time.monotonic())]
        words = self.said / f"{section}.txt"
        with words.open("wb") as said:
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=said)
        try:
            for line in answers(process, until, self.write):
                if line is None:
                    late = time.monotonic() >= until
                    why = (
                        "no time left" if late else f"no answer in {LIMIT if part else START:.0f} s"
                    )
                    where = stacks(process, words)
                    self.add(section, name=part or "start", note=why, where=where)
                    self.tell(section, f"{part or 'start'}: {why}", words)
                    return begun, None
                if not line.startswith(MARK):
                    continue
                said = json.loads(line.removeprefix(MARK))
                if "begins" in said:
                    begun, part = said["begins"], said["name"]
                    rows = len(self.sections.get(section, ()))
                elif "took" in said:
                    for row in self.sections.get(section, [])[rows:]:
                        row["took_s"] = said["took"]
                else:
                    self.add(section, **said["row"])
            status = process.wait(max(min(LIMIT, until - time.monotonic()), GRACE))
        except subprocess.TimeoutExpired:
            status = None
        finally:
            ended(process)
        if status not in (0, SPOILT):
            self.add(section, name=part or "start", note=f"the process ended: exit status {status}", where=tail(words))  # fmt: skip
            self.tell(section, f"{part or 'start'}: exit status {status}", words)
        return begun, status

    def tell(self, section: str, title: str, words: Path) -> None:
        """The last words of a worker that has ended or hangs, and what it had planned."""
        now, said = self.now(section), words.read_text(errors="replace")
        planned = now.read_text(errors="replace") if now.is_file() else ""
        gpu_details.append(self.details, f"{section}: {title}", f"{said[-SAID:]}\n{planned}")


def stacks(process: subprocess.Popen, words: Path) -> str:
    """Where a process is that gives no answer. ``words``: what it writes beside its rows."""
    before = words.stat().st_size
    with contextlib.suppress(OSError, AttributeError):  # it has ended; a system without this signal
        process.send_signal(signal.SIGUSR1)
        until = time.monotonic() + GRACE
        while time.monotonic() < until and words.stat().st_size == before:
            time.sleep(0.05)
        time.sleep(0.2)
    return tail(words, before)


def tail(words: Path, start: int = 0) -> str:
    """The last lines of what a worker has written beside its rows; of stacks the innermost frames, which come first."""
    lines = words.read_bytes()[start:].decode(errors="replace").splitlines()
    kept = lines[:TAIL] if start or any("most recent call first" in x for x in lines) else lines[-TAIL:]  # fmt: skip
    return " / ".join(x.strip() for x in kept if x.strip())


def ended(process: subprocess.Popen) -> None:
    """End a process; one that the driver does not let go of is left alone."""
    process.kill()
    process.stdout.close()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(GRACE)


def answers(process: subprocess.Popen, until: float, idle: Callable[[], None]) -> Iterator[str | None]:  # fmt: skip
    """The lines of a process; None once where there is none for too long, the first one longer. ``idle`` is called now and then."""
    chosen = selectors.DefaultSelector()
    chosen.register(process.stdout, selectors.EVENT_READ)
    rest, heard, limit = b"", time.monotonic(), START
    while True:
        left = min(heard + limit, until) - time.monotonic()
        if left <= 0:
            yield None
            return
        if not chosen.select(min(left, PAUSE)):
            idle()
            continue
        heard, limit = time.monotonic(), LIMIT
        found = os.read(process.stdout.fileno(), 1 << 16)
        if not found:
            return
        *lines, rest = (rest + found).split(b"\n")
        yield from (line.decode(errors="replace") for line in lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results")
    parser.add_argument("--seconds", type=float, default=450)
    parser.add_argument("--only", default=",".join(gpu_sections.SECTIONS), help="sections, with commas")  # fmt: skip
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--cases", default="", help="the folder of the conformance cases, where it is not beside the checkout or in it")  # fmt: skip
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--details", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--now", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--skip", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--until", type=float, default=math.inf, help=argparse.SUPPRESS)
    parser.add_argument("--without", default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        now = options.now if options.worker in EAGER else None
        details = gpu_details.Details(options.details, now)
        sys.exit(work(options.worker, options.device, options.skip, options.without, options.cases, options.until, details))  # fmt: skip
    gpu = options.device.startswith("cuda")
    if gpu and not torch.cuda.is_available():
        print("benchmarks/gpu.py: there is no GPU on this machine; nothing was measured")
        return
    run = Run(options)
    run.details.unlink(missing_ok=True)  # of another run
    run.name = torch.cuda.get_device_name(options.device) if gpu else platform.processor() or "CPU"
    run.all(options.only.split(","))
    print(report(run))
    print("\n".join(wrong(run)))


if __name__ == "__main__":
    main()
