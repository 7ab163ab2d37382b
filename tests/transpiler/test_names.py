"""Fresh names: the smallest number that nothing uses."""

import pytest

from tograph.transpiler.names import Namer
from tograph.transpiler.syntax import gast, parse_statements


def namer(text):
    return Namer(gast.Module(parse_statements(text), []), ("kept",))


def test_they_take_the_smallest_number():
    names = namer("body = body_2 = 1")
    assert [names.fresh("body") for _ in range(3)] == ["body_1", "body_3", "body_4"]
    assert [names.fresh(w) for w in ("other", "body_3", "kept", "other")] == ["other", "body_3_1", "kept_1", "other_1"]  # fmt: skip


@pytest.mark.parametrize("count", [4000])
def test_many_of_one_wish(count, monkeypatch):
    """Each is found at once: what is asked for does not grow with how many there are."""
    names, asked = namer("x = 1"), []

    class Used(set):
        def __contains__(self, name):
            asked.append(name)
            return super().__contains__(name)

    names.used = Used(names.used)
    assert len({names.fresh("body") for _ in range(count)}) == count
    assert len(asked) <= 2 * count
