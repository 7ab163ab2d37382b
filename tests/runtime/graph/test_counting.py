"""By how much loops count, and what stays as it is."""

import pytest

import tograph as tg
from tograph.runtime.graph.counting import stays, step_of

LOOP = """main(%i: int, %n: int) {
  %0: int, %1: int = While(%i, %n, %n, carried=2) {
    cond(%i: int, %k: int, %n: int) {
      %0: bool = py.lt(%i, %n)
      return %0
    }
    body(%i: int, %k: int, %n: int) {
      %0: int = STEP
      return %0, %k
    }
  }
  return %0
}
"""


def loop(step):
    return tg.parse_graph(LOOP.replace("STEP", step)).nodes[0]


@pytest.mark.parametrize(
    ("step", "size"),
    [
        ("py.add(%i, 2)", 2),
        ("py.sub(%i, 3)", -3),
        ("py.add(%i, %n)", 0),
        ("py.add(%n, 1)", 0),
        ("py.mul(%i, 2)", 0),
    ],
)
def test_steps(step, size):
    node = loop(step)
    assert [step_of(node, i) for i in (0, 1, 2, -1)] == [size, 0, 0, 0]


def test_what_stays():
    node = loop("py.add(%i, 1)")
    assert [stays(node, i) for i in (0, 1, 2, -1)] == [False, True, True, False]
