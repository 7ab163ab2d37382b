"""Every code block of README.md and docs/ runs, in its page's order; a ``text`` block is what the block before it prints.

In an expected text ``...`` stands for anything and runs of blanks are equal. A Python block that starts with
``# needs: NAME`` is left out where that package is missing. In ``sh`` blocks the ``tograph`` commands run; the set-up
commands of the README are tested in test_readme.py.
"""

import builtins
import contextlib
import doctest
import importlib.util
import io
import linecache
import re
import shlex
import xml.etree.ElementTree
from pathlib import Path

import pytest

import tograph as tg
from tograph import cli

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted(p for p in (ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SAME = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
LANGUAGES = {"python", "text", "sh", ""}


def blocks(page):
    """(language, text, line of its first row) of the fenced blocks of a page."""
    text = page.read_text()
    return [(m[1], m[2], text.count("\n", 0, m.start()) + 2) for m in FENCE.finditer(text)]


def missing(body):
    needs = re.match(r"# needs: (\w+)", body)
    return bool(needs) and importlib.util.find_spec(needs[1]) is None


def run_python(page, body, line, names):
    """What a block prints. It is compiled at its own lines of the page, which is where its source is found."""
    padded = "\n" * (line - 1) + body
    file = f"{page}.py"
    linecache.cache[file] = (len(padded), None, padded.splitlines(keepends=True), file)
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(padded, file, "exec"), names)
    return out.getvalue()


def run_shell(body):
    out = io.StringIO()
    for command in body.splitlines():
        words = shlex.split(command, comments=True)
        if words and words[0] == "tograph":
            with contextlib.redirect_stdout(out):
                assert cli.main(words[1:]) == 0, command
        else:
            assert not words or re.match(r"python3 -m venv|PIP_RETRIES|\.venv/bin/", command), (
                command
            )
    return out.getvalue()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_blocks(page, tmp_path, monkeypatch):
    (tmp_path / "samples").symlink_to(ROOT / "samples")
    monkeypatch.chdir(tmp_path)
    names = {"__name__": f"page_{page.stem}", "__builtins__": builtins}
    printed = None
    for language, body, line in blocks(page):
        assert language in LANGUAGES, f"{page}:{line}: {language}"
        if language == "python":
            printed = None if missing(body) else run_python(page, body, line, names)
        elif language == "sh":
            printed = run_shell(body)
        elif printed is not None:
            match = doctest.OutputChecker().check_output(body, printed, SAME)
            assert match, f"{page}:{line}\nexpected:\n{body}\nprinted:\n{printed}"


def test_links_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#]+)", page.read_text()):
            assert target.startswith("http") or (page.parent / target).exists(), (page, target)


def test_pages_of_the_site_exist():
    site = (ROOT / "mkdocs.yml").read_text()
    named = re.findall(r"[\w/-]+\.md", site)
    assert named and all((ROOT / "docs" / name).is_file() for name in named)
    pages = {p.relative_to(ROOT / "docs").as_posix() for p in (ROOT / "docs").rglob("*.md")}
    assert {p for p in pages if not p.startswith("decisions/")} == set(named)


def test_reference_names_exist():
    for name in re.findall(
        r"^::: ([\w.]+)$", (ROOT / "docs" / "reference.md").read_text(), re.MULTILINE
    ):
        parts = name.split(".")
        found = importlib.import_module(parts[0])
        for i, part in enumerate(parts[1:], 2):
            if not hasattr(found, part):
                importlib.import_module(".".join(parts[:i]))
            found = getattr(found, part)
        assert found.__doc__, name


def test_public_functions_have_an_example():
    names = [n for n in tg.__all__ if callable(getattr(tg, n))]
    assert [n for n in names if not re.search("Example:(:| ``)", getattr(tg, n).__doc__)] == []


def test_folders_and_files_of_the_architecture_exist():
    text = (ROOT / "docs" / "architecture.md").read_text()
    rows = [line.split("|")[1:3] for line in text.splitlines() if line.startswith("| `tograph/")]
    for folders, what in rows:
        (folder, *_) = found = [ROOT / name for name in re.findall(r"`([^`]+)`", folders)]
        found += [folder / name for name in re.findall(r"`(\w+(?:\.py|/))`", what)]
        assert [p for p in found if not p.exists()] == []
    assert len(rows) > 10


def test_picture_is_an_image():
    tree = xml.etree.ElementTree.parse(ROOT / "docs" / "architecture.svg")
    assert tree.getroot().tag.endswith("svg")
