"""The first two shell blocks of the README: run the main job; set up and pass the tests."""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent


def shell_blocks():
    text = (ROOT / "README.md").read_text()
    return re.findall(r"^```sh\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)[:2]


def test_first_command_runs_the_main_job():
    run, _ = shell_blocks()
    assert "-m venv" in run
    assert "pip install -c constraints.txt ." in run
    assert "tograph dump samples/newton.py:newton" in run
    assert "tograph run samples/newton.py" in run


def test_second_command_sets_up_and_tests():
    _, test = shell_blocks()
    assert "-m venv" in test
    assert "pip install -c constraints.txt -e '.[test]'" in test
    assert "pytest -n auto" in test


def test_files_of_the_commands_exist():
    for name in ("samples/newton.py", "constraints.txt", "pyproject.toml"):
        assert (ROOT / name).is_file()
