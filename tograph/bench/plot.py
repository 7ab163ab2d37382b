"""The picture of a run: for each workload every peer's time as a multiple of tograph's, on a logarithmic axis."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from . import peers

COLOURS = {
    "eager": "#8c8c8c",
    "compile": "#ee9f2d",
    "while_loop": "#d9602b",
    "script": "#b49ad6",
    "jax": "#3f7fbf",
    "numba": "#55a868",
}


def draw(cells: dict[str, dict[str, dict[str, Any]]], path: Path) -> None:
    """Write the plot as a picture in the format that the path's ending names."""
    matplotlib = importlib.import_module("matplotlib")
    matplotlib.use("Agg")
    pyplot = importlib.import_module("matplotlib.pyplot")
    rows = [k for k, row in cells.items() if "steady" in row.get("tograph", {})]
    figure, axis = pyplot.subplots(figsize=(8, 0.45 * len(rows) + 1.2))
    for name, colour in COLOURS.items():
        points = [
            (cells[key][name]["steady"] / cells[key]["tograph"]["steady"], len(rows) - i)
            for i, key in enumerate(rows)
            if "steady" in cells[key].get(name, {})
        ]
        if points:
            axis.scatter(*zip(*points), color=colour, label=peers.TITLES[name], zorder=3)
    axis.axvline(1.0, color="black", linewidth=1)
    axis.set_xscale("log")
    axis.set_yticks([len(rows) - i for i in range(len(rows))], rows)
    axis.set_xlabel("time of one call, as a multiple of tograph's (right of the line: slower)")
    axis.grid(axis="x", color="#dddddd", zorder=0)
    axis.legend(fontsize=8, loc="best")
    figure.tight_layout()
    figure.savefig(path)
    pyplot.close(figure)
