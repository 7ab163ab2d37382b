"""Calls are replaced by the nodes of their functions; effects keep their order."""

from tests.runtime.passes.text_case import same
from tograph.runtime.passes.inline import inline


def test_nodes_take_the_place_of_the_call_and_keep_their_lines():
    same(
        inline,
        """main(%x: f32[2], %r: f32[2]) {
  !0 = tg.print(%x)  # a.py:1
  %1: f32[2] = Call(%x, %r) {  # a.py:2
    function(%a: f32[2], %s: f32[2]) {
      !2 = tg.print(%a)  # b.py:7
      !3 = tg.assign(%s, %a)  # b.py:8
      %4: f32[2] = aten.neg.default(%a)  # b.py:9
      return %4
    }
  }
  %5: f32[2] = tg.read(%r)  # a.py:3
  return %1, %5
}""",
        """main(%x: f32[2], %r: f32[2]) {
  !0 = tg.print(%x)  # a.py:1
  !2 = tg.print(%x)  # b.py:7
  !3 = tg.assign(%r, %x)  # b.py:8
  %4: f32[2] = aten.neg.default(%x)  # b.py:9
  %5: f32[2] = tg.read(%r)  # a.py:3
  return %4, %5
}""",
    )


def test_calls_in_calls_and_in_branches():
    same(
        inline,
        """main(%p: bool, %x: f32[2]) {
  %0: f32[2] = If(%p, %x) {
    then(%a: f32[2]) {
      %1: f32[2] = Call(%a) {
        function(%b: f32[2]) {
          %2: f32[2] = Call(%b) {
            function(%c: f32[2]) {
              %3: f32[2] = aten.neg.default(%c)
              return %3
            }
          }
          return %2
        }
      }
      return %1
    }
    orelse(%a: f32[2]) {
      return %a
    }
  }
  return %0
}""",
        """main(%p: bool, %x: f32[2]) {
  %0: f32[2] = If(%p, %x) {
    then(%a: f32[2]) {
      %3: f32[2] = aten.neg.default(%a)
      return %3
    }
    orelse(%a: f32[2]) {
      return %a
    }
  }
  return %0
}""",
    )


def test_a_call_without_gradients_and_one_that_returns_its_argument():
    same(
        inline,
        """main(%x: f32[2]) {
  %0: f32[2], %1: f32[2], %2: int = Call(%x, 3) nograd {
    function(%a: f32[2], %n: int) {
      %3: f32[2] = aten.mul.Tensor(%a, %n)
      return %3, %a, %n
    }
  }
  return %0, %1, %2
}""",
        """main(%x: f32[2]) {
  %3: f32[2] = aten.mul.Tensor(%x, 3) nograd
  %4: int = py.constant(3)
  return %3, %x, %4
}""",
    )


def test_other_regions_stay():
    same(
        inline,
        """main(%p: bool, %x: f32[2]) {
  %0: f32[2] = If(%p, %x) {
    then(%a: f32[2]) {
      return %a
    }
    orelse(%a: f32[2]) {
      return %a
    }
  }
  return %0
}""",
    )
