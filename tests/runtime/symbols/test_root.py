"""What the graphs of one trace share."""

import pytest

from tograph.runtime.symbols.root import Root


def test_callbacks_are_there_again_where_an_op_of_their_own_is_refused():
    root, calls = Root(), [print]
    root.before_failure = calls
    with pytest.raises(ValueError), root.unwatched():
        assert root.before_failure == []
        raise ValueError
    assert root.before_failure is calls
