"""Everything on a GPU, in one command: what is right, then what it costs. Under eight minutes; not yet seen on a GPU.

    python benchmarks/gpu.py [--output benchmarks/results] [--seconds 450] [--only correctness,loops,...] [--cases FOLDER]

Sections (``gpu_sections``), in order:

probes       the first of all: whether kernels start, and conditional nodes work (``gpu_assumptions``)
assumptions  what else the code takes for granted of driver, torch and Triton, one by one
correctness  every sample and workload with its tensors on the GPU, beside the same call on the CPU; level of each
cases        the conformance cases, where their folder is there
peers        the first calls of torch.compile: what they compile is on disk when ``workloads`` measures
loops        µs per iteration of a While by number of library calls in its body: in one kernel, as a WHILE node whose handle is set by a
             kernel of its own or by the kernel that computes the condition, in chunks
bandwidth    fused kernels as a share of the rate of a device copy
calls        host synchronisations and launches of one call of each workload; 0 synchronisations is the aim of tiers 0 and 1
workloads    each beside eager PyTorch, torch.compile, its mode "reduce-overhead", torch.while_loop, and JAX where it is installed

Each section runs in a process of its own; those from assumptions to peers, which measure nothing that others would disturb, at the same time. A part that raises is a row of the report. One that ends its process, makes the
CUDA context unusable, or gives no answer in time does not take others with it: the section goes on behind it in a new
process. The report, a Markdown page and the same as JSON, is written anew every few seconds, so that what was found is there
whatever ends the script. It ends with all that went wrong, each with where it did (the innermost frames of an error; of a part that hangs the stack of its
threads; the last words of a process that died), and the versions of what it ran on: that is what to send.

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
import functools
import importlib.metadata
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
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]  # from a checkout, installed or not

NEEDED = ("gast", "astunparse")  # by tograph, beside torch and what torch needs
if lacking := [name for name in NEEDED if importlib.util.find_spec(name) is None]:
    sys.exit(
        f"benchmarks/gpu.py: {' and '.join(lacking)} not found: install them, or put their wheels' content on PYTHONPATH"
    )

import gpu_sections  # noqa: E402
import torch  # noqa: E402
from gpu_assumptions import FUSED, PROBE  # noqa: E402

from tograph.runtime.gpu import capture  # noqa: E402
from tograph.runtime.kernels import driver  # noqa: E402

MARK = "@row "  # begins a line of a worker that is for the parent
PAUSE = 5.0  # seconds between two versions of the report
LIMIT = 60.0  # seconds without an answer after which a part is given up
FRAMES, CAUSES = 4, 3  # of an error that a row tells
TAIL = 12  # lines of what a process that has died or hangs has said last
GRACE = 3.0  # seconds for a process that hangs to say where
SPOILT = 3  # exit status of a worker whose CUDA context cannot be used any more
TOGETHER = ("assumptions", "correctness", "cases", "peers")  # sections that run at the same time
# The part of the time left that a section may take, those that run together as one; what it leaves is for those behind it.
SHARES = {"probes": 0.2, "loops": 0.3, "bandwidth": 0.3, "calls": 0.4, "workloads": 1.0} | dict.fromkeys(TOGETHER, 0.5)  # fmt: skip


# ---- the worker: one section, in this process


def work(section: str, device: str, skip: int, without: str = "", cases: str = "") -> int:
    """Run the parts of a section from number ``skip`` on. ``without``: what is not used, since its probe gave no answer."""
    if cases:
        gpu_sections.CASES.insert(0, Path(cases))
    if PROBE in without:
        driver.available = lambda *_: "the probe gave no answer"
    if FUSED in without:
        capture.fuses = lambda *_: "the probe gave no answer"

    def say(**fields: Any) -> None:
        print(MARK + json.dumps(fields), flush=True)

    bench = gpu_sections.Bench(device, lambda **fields: say(row=fields))
    for i, (name, run) in enumerate(parts(section, bench)):
        if i < skip:
            continue
        say(begins=i, name=name)
        start = time.perf_counter()
        try:
            run()
            bench.wait()
            say(took=round(time.perf_counter() - start, 2))
        except Exception as error:  # a benchmark reports what fails and goes on
            say(row={"name": name, "note": f"{type(error).__name__}: {error}".strip()[:300], "where": where(error)})  # fmt: skip
            if spoilt(bench, error):
                return SPOILT
    return 0


def where(error: BaseException) -> str:
    """The innermost frames of an error and of those behind it: what has to be looked at."""
    found = []
    for _ in range(CAUSES):
        frames = traceback.extract_tb(error.__traceback__)[-FRAMES:]
        at = " < ".join(f"{Path(f.filename).name}:{f.lineno} {f.name}" for f in reversed(frames))
        found.append(f"{type(error).__name__} at {at}")
        error = error.__cause__ or error.__context__
        if error is None:
            break
    return "; from ".join(found)


def parts(section: str, bench: gpu_sections.Bench) -> Iterator[tuple[str, Callable[[], None]]]:
    """The parts of a section; what goes wrong while they are named is one more of them, which raises it."""
    try:
        yield from gpu_sections.SECTIONS[section](bench)
    except Exception as error:
        yield "its parts", functools.partial(_raise, error)


def _raise(error: Exception) -> None:
    raise error


def spoilt(bench: gpu_sections.Bench, error: Exception) -> bool:
    """Whether nothing more can be done on the device in this process."""
    if not bench.gpu:
        return False
    try:
        torch.zeros(1, device=bench.device).item()
    except RuntimeError:
        return True
    return "CUDA error" in str(error)


# ---- the parent: workers, the clock, the report


class Run:
    """Rows by section, and the time at which all has to end."""

    def __init__(self, options: argparse.Namespace):
        self.device, self.folder, self.cases = options.device, options.output, options.cases
        self.end = time.monotonic() + options.seconds
        self.sections: dict[str, list[dict[str, Any]]] = {}
        self.name, self._written = options.device, 0.0
        self.said = Path(tempfile.mkdtemp(prefix="tograph-gpu-"))  # what workers write beside rows
        self._mutex = threading.RLock()

    def add(self, section: str, **fields: Any) -> None:
        with self._mutex:
            self.sections.setdefault(section, []).append(fields)
            self.write()
        if fields.get("result") != "passed":  # of those there are many
            print(
                f"{section:12}",
                "  ".join(f"{k}={_short(v)}" for k, v in fields.items()),
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
            "--without",
            self.without,
            "--cases",
            self.cases,
        ]

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
        skip = 0
        while time.monotonic() < until:
            begun, status = self._worker(name, skip, until)
            if status == 0:
                return
            if begun is None:
                self.add(name, note=f"nothing begins: exit status {status}")
                return
            skip = begun + 1
        self.add(name, note="no time left")

    def _worker(self, section: str, skip: int, until: float) -> tuple[int | None, int | None]:
        """(the number of the last part that began, the exit status; None where it was ended)."""
        command, begun, part, rows = self.command(section, skip), None, "", 0
        words = self.said / f"{section}.txt"
        with words.open("wb") as said:
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=said)
        try:
            for line in answers(process, until, self.write):
                if line is None:
                    late = time.monotonic() >= until
                    why = "no time left" if late else f"no answer in {LIMIT:.0f} s"
                    self.add(section, name=part or "start", note=why, where=stacks(process, words))
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
        return begun, status


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
    """The lines of a process; None once where there is none for too long. ``idle`` is called now and then."""
    chosen = selectors.DefaultSelector()
    chosen.register(process.stdout, selectors.EVENT_READ)
    rest, heard = b"", time.monotonic()
    while True:
        left = min(heard + LIMIT, until) - time.monotonic()
        if left <= 0:
            yield None
            return
        if not chosen.select(min(left, PAUSE)):
            idle()
            continue
        heard = time.monotonic()
        found = os.read(process.stdout.fileno(), 1 << 16)
        if not found:
            return
        *lines, rest = (rest + found).split(b"\n")
        yield from (line.decode(errors="replace") for line in lines)


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


# ---- the report


def compared(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One row for each workload, with µs by peer and the ratio to the best of eager and torch.compile; the geometric mean."""
    table: dict[str, dict[str, Any]] = {}
    for r in rows:
        if "workload" in r:
            table.setdefault(r["workload"], {"name": r["workload"]})[r["peer"]] = r["microseconds"]
        else:
            table.setdefault(r["name"], r)
    ratios = []
    for r in table.values():
        peers = [r[p] for p in ("eager", "compile", "reduce-overhead") if p in r]
        if "tograph" in r and peers:
            r["ratio"] = min(peers) / r["tograph"]
            ratios.append(r["ratio"])
    mean = [{"name": "geometric mean", "ratio": math.exp(sum(map(math.log, ratios)) / len(ratios))}] if ratios else []  # fmt: skip
    return [*table.values(), *mean]


def failures(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The cases that did not pass, and how many did."""
    passed = sum(r.get("result") == "passed" for r in rows)
    return [{"name": "passed", "result": passed}, *(r for r in rows if r.get("result") != "passed")]


SUMMARIES = {"workloads": compared, "cases": failures}


def report(run: Run) -> Path:
    """A Markdown page and the same as JSON."""
    device = run.name
    lines = [f"# tograph on {device}", "", f"torch {torch.__version__}, Python {platform.python_version()}. Times in µs unless the name says otherwise."]  # fmt: skip
    found = {n: [*run.sections[n]] for n in gpu_sections.SECTIONS if n in run.sections}
    for section, rows in found.items():
        shown = SUMMARIES.get(section, list)(rows)
        columns = list(dict.fromkeys(k for r in shown for k in r))
        lines += ["", f"## {section}", "", f"| {' | '.join(columns)} |", "|" + " --- |" * len(columns)]  # fmt: skip
        lines += [f"| {' | '.join(_cell(r.get(c, '')) for c in columns)} |" for r in shown]
    lines += ["", *wrong(run)]
    run.folder.mkdir(parents=True, exist_ok=True)
    page = run.folder / "gpu.md"
    texts = {page.with_suffix(".json"): json.dumps({"device": device, **found}, indent=1), page: "\n".join(lines)}  # fmt: skip
    for path, text in texts.items():  # an older version stays whole until the new one is
        new = path.with_suffix(".new")
        new.write_text(text + "\n")
        new.replace(path)
    return page


def wrong(run: Run) -> list[str]:
    """All that did not go as it should, in full, and what it ran on: what one has to send."""
    found = [f"* {section}: {json.dumps(row)}" for section, rows in [*run.sections.items()] for row in [*rows] if is_wrong(row)]  # fmt: skip
    lines = ["## What went wrong", "", *(found or ["nothing"]), "", "### The machine", ""]
    return [*lines, *(f"* {k}: {v}" for k, v in machine().items())]


def is_wrong(row: dict[str, Any]) -> bool:
    result = str(row.get("result", ""))
    lower = "host" in str(row.get("runs", "")) or "device 2" in str(row.get("runs", ""))
    return bool(row.get("note")) or row.get("holds") == "NO" or "DIFFERENT" in result or "FAILED" in result or lower  # fmt: skip


@functools.cache
def machine() -> dict[str, str]:
    """What there is to know about the machine without its GPU, which a worker might have spoilt."""
    found = {"Python": sys.version.split()[0], "torch": torch.__version__, "CUDA of torch": str(torch.version.cuda)}  # fmt: skip
    for name in ("triton", "cuda-bindings", "llvmlite", "numpy"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    found["C compiler"] = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), "none")
    found["set"] = " ".join(f"{k}={v}" for k, v in sorted(os.environ.items()) if k.startswith(("CUDA_", "PYTORCH_", "TRITON_", "TOGRAPH_")))  # fmt: skip
    query = ["nvidia-smi", "--query-gpu=name,driver_version,memory.total,memory.used,compute_mode,mig.mode.current", "--format=csv,noheader"]  # fmt: skip
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        found["nvidia-smi"] = subprocess.run(query, capture_output=True, text=True, timeout=10).stdout.strip()  # fmt: skip
    return found


def _cell(value: Any) -> str:
    return _short(value).replace("|", "\\|").replace("\n", " ")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results")
    parser.add_argument("--seconds", type=float, default=450)
    parser.add_argument("--only", default=",".join(gpu_sections.SECTIONS), help="sections, with commas")  # fmt: skip
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--cases", default="", help="the folder of the conformance cases, where it is not beside the checkout or in it")  # fmt: skip
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--skip", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--without", default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        if hasattr(signal, "SIGUSR1"):
            faulthandler.register(
                signal.SIGUSR1, all_threads=True
            )  # the parent asks a worker that hangs
        faulthandler.enable()
        sys.exit(work(options.worker, options.device, options.skip, options.without, options.cases))
    gpu = options.device.startswith("cuda")
    if gpu and not torch.cuda.is_available():
        print("benchmarks/gpu.py: there is no GPU on this machine; nothing was measured")
        return
    run = Run(options)
    run.name = torch.cuda.get_device_name(options.device) if gpu else platform.processor() or "CPU"
    run.all(options.only.split(","))
    print(report(run))
    print("\n".join(wrong(run)))


if __name__ == "__main__":
    main()
