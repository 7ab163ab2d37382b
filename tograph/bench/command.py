"""The ``bench`` command's options."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from ..targets import CommandError
from . import growth, peers, report
from .workloads import WORKLOADS

ABOUT = "Measure the workloads under tograph and every installed peer, as ratios."


def add(commands: Any) -> None:
    """Add the command to the subparsers of the command line."""
    command = commands.add_parser("bench", help=ABOUT, description=ABOUT)
    command.set_defaults(command=bench)
    titles = ", ".join(f"{key} ({w.title})" for key, w in WORKLOADS.items())
    command.add_argument("--only", metavar="KEYS", default="", help=f"some of: {titles}")
    names = ", ".join(peers.PEERS)
    command.add_argument("--peers", metavar="NAMES", default="", help=f"some of: {names}")
    command.add_argument("--threads", type=int, default=2)
    command.add_argument(
        "--rounds", type=int, default=1, help="processes a cell; medians are shown"
    )
    command.add_argument(
        "--out", type=Path, metavar="DIR", help="folder for the tables and the plot"
    )
    command.add_argument(
        "--growth", action="store_true", help="how cost grows with size, steps and graph length"
    )
    command.add_argument("--traceback", action="store_true", help="show an error's full traceback")


def bench(options: argparse.Namespace) -> None:
    """``tograph bench``."""
    if options.growth:
        growth.run(options.threads, options.out)
        return
    keys = _chosen(options.only, WORKLOADS, "workload")
    names = _chosen(options.peers, peers.PEERS, "peer")
    report.run(keys, names, options.threads, options.rounds, options.out)


def _chosen(text: str, known: Any, what: str) -> list[str]:
    chosen = [t for t in text.split(",") if t]
    for name in chosen:
        if name not in known:
            raise CommandError(f"no {what} {name!r}: there are {', '.join(known)}")
    return chosen
