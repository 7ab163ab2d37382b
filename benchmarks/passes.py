"""What the passes cost, and how it grows with the length of a graph.

Graphs of 100 to 10,000 nodes: blocks of pointwise ops with repeated subexpressions, an If, a loop that writes rows and
one that pushes on a list, a resource that is read and assigned, a Call. Time is CPU time of this process, the least of
three runs. Usage: ``python benchmarks/passes.py``; writes ``benchmarks/results/passes.md``.
"""

import sys
import time
from pathlib import Path

import torch

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from tograph.runtime import passes  # noqa: E402
from tograph.runtime.graph.ordering import set_control_inputs  # noqa: E402
from tograph.runtime.graph.rewrite import copied, count_nodes  # noqa: E402
from tograph.runtime.graph.text import parse_graph  # noqa: E402

HEAD = "main(%x: f32[8], %m: f32[9,8], %r: f32[8], %p: bool, %n: int) {\n  %s0: f32[8] = aten.neg.default(%x)\n"
BLOCK = """
  %a{k}: f32[8] = aten.exp.default(%s{k})
  %b{k}: f32[8] = aten.exp.default(%s{k})
  %c{k}: f32[8] = aten.mul.Tensor(%a{k}, %b{k})
  %d{k}: f32[8] = aten.mul.Tensor(%c{k}, 1)
  %e{k}: f32[8] = tg.read(%r)
  %f{k}: f32[8] = aten.add.Tensor(%e{k}, %d{k})
  !g{k} = tg.assign(%r, %f{k})
  %h{k}: f32[8] = aten.sigmoid.default(%f{k})
  %i{k}: f32[8] = If(%p, %h{k}, %c{k}) {{
    then(%u: f32[8], %v: f32[8]) {{
      %w: f32[8] = aten.add.Tensor(%u, %v)
      %y: f32[8] = aten.tanh.default(%w)
      return %y
    }}
    orelse(%u: f32[8], %v: f32[8]) {{
      return %v
    }}
  }}
  %j{k}: f32[9,8] = aten.zeros.default([9, 8])
  %k{k}: list<f32[8]> = tg.list_new()
  %l{k}: int, %o{k}: f32[9,8], %q{k}: list<f32[8]> = While(0, %j{k}, %k{k}, %i{k}, %n, carried=3) {{
    cond(%u: int, %v: f32[9,8], %w: list<f32[8]>, %y: f32[8], %z: int) {{
      %t: bool = py.lt(%u, %z)
      return %t
    }}
    body(%u: int, %v: f32[9,8], %w: list<f32[8]>, %y: f32[8], %z: int) {{
      %1: int = py.add(%u, 1)
      %2: f32[8] = aten.exp.default(%y)
      %3: f32[8] = aten.mul.Tensor(%2, %u)
      %4: f32[9,8] = aten.select_scatter.default(%v, %3, 0, %u)
      %5: list<f32[8]> = tg.list_push(%w, %3)
      return %1, %4, %5
    }}
  }}
  %ss{k}: f32[8] = aten.select.int(%o{k}, 0, 0)
  %t{k}: f32[8] = Call(%ss{k}) {{
    function(%u: f32[8]) {{
      %v: f32[8] = aten.relu.default(%u)
      return %v
    }}
  }}
  %s{next}: f32[8] = aten.add.Tensor(%t{k}, %i{k})"""
PER_BLOCK = 25


def graph_of(length):
    blocks = max(1, round(length / PER_BLOCK))
    body = "".join(BLOCK.format(k=k, next=k + 1) for k in range(blocks))
    return parse_graph(f"{HEAD}{body}\n  return %s{blocks}\n}}")


def least(run, times=3):
    found = []
    for _ in range(times):
        start = time.process_time()
        run()
        found.append(time.process_time() - start)
    return min(found) * 1e3


def stages(graph):
    """Milliseconds of each entry of the list, one run."""
    made, out = copied(graph), {}
    for number, step in enumerate(passes.passes(True)):
        start = time.process_time()
        made = step.run(made)
        out[number, step.name] = (time.process_time() - start) * 1e3
    start = time.process_time()
    set_control_inputs(made)
    out[len(out), "control inputs"] = (time.process_time() - start) * 1e3
    return out


def main():
    lines = ["# All passes", "", "| nodes | ms | us / node |", "|---|---|---|"]
    passes.optimize(graph_of(100), True)
    for length in (100, 300, 1000, 3000, 10_000):
        graph = graph_of(length)
        count = count_nodes(graph)
        spent = least(lambda graph=graph: passes.optimize(graph, True))
        lines.append(f"| {count} | {spent:.1f} | {spent / count * 1e3:.0f} |")
    lines += ["", "| pass | us / node at 1,000 nodes | at 10,000 |", "|---|---|---|"]
    small, large = graph_of(1000), graph_of(10_000)
    few, many = stages(small), stages(large)
    for key in few:
        a, b = (t[key] / count_nodes(g) * 1e3 for t, g in ((few, small), (many, large)))
        lines.append(f"| {key[1]} | {a:.1f} | {b:.1f} |")
    lines += ["", f"torch {torch.__version__}, CPU time."]
    text = "\n".join(lines) + "\n"
    print(text)
    (HERE / "results" / "passes.md").write_text(text)


if __name__ == "__main__":
    main()
