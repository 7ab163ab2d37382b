"""What conditional nodes need, and the graph that they are tried on: tiny, and with a known answer."""

from __future__ import annotations

from ..graph.text import parse_graph
from ..kernels import driver
from . import planner
from .plan import Plan

NODES = ("while", "if", "switch")

_PROBE = """
probe(%n: i64[]@DEVICE) {{
  %0: i64[]@DEVICE, %1: i64[]@DEVICE = While(%n, 0, carried=2) {{
    cond(%2: i64[]@DEVICE, %3: i64[]@DEVICE) {{
      %4: bool[]@DEVICE = aten.gt.Scalar(%2, 0)
      return %4
    }}
    body(%5: i64[]@DEVICE, %6: i64[]@DEVICE) {{
      %7: i64[]@DEVICE = aten.sub.Tensor(%5, 1)
      %8: i64[]@DEVICE = aten.add.Tensor(%6, %5)
      return %7, %8
    }}
  }}
  return %1
}}
"""


def probe_plan(device: str) -> Plan:
    """A loop that adds the numbers from n down to 1, as a WHILE node."""
    return planner.plan(parse_graph(_PROBE.format().replace("DEVICE", device)), whole=False)


def unavailable(plan: Plan) -> str:
    """Why the driver cannot make the nodes of a plan; a straight line needs no driver but torch's."""
    nodes = plan.nodes()
    if nodes.keys().isdisjoint(NODES):
        return ""
    return driver.available(driver.SWITCH if "switch" in nodes else driver.CONDITIONAL)
