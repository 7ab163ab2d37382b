"""Files that are not, or no longer, what tg.save wrote: one class of error each, and never a crash."""

import copy
import io
import json
import os
import random
import stat
import zipfile

import pytest
import torch

import tograph as tg
from tograph.errors import CorruptFileError, ForeignFileError, NewerFileError, SavedFileError
from tograph.runtime.saved import archive


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("archive") / "f.tograph"
    weight = torch.nn.Parameter(torch.arange(6.0).reshape(2, 3))
    seen = tg.Variable(0)

    @tg.function
    def f(x, items, scale=2.0):
        """Doc."""
        while x.sum() < 10:
            x = x * scale + weight.sum()
            items.append(x)
            seen.assign_add(1)
        if x.sum() > 1e9:
            raise ValueError(f"too big: {x.sum()}")
        return {"x": x, "more": (None, items)}

    f(torch.ones(3), [])
    tg.save(f, path)
    return path


def rewritten(path, change):
    """The bytes of a file whose manifest was changed, with a right checksum."""
    parts = archive.read(path)
    manifest = json.loads(parts[archive.MANIFEST])
    manifest = change(manifest) or manifest
    parts[archive.MANIFEST] = json.dumps(manifest).encode()
    archive.write(path.parent / "changed", parts)
    return path.parent / "changed"


def test_every_changed_byte_is_noticed(saved, tmp_path):
    content = saved.read_bytes()
    chosen = random.Random(0)
    places = [*range(30), *range(len(content) - 110, len(content))]
    places += chosen.sample(range(len(content)), 300)
    for at in places:
        changed = bytearray(content)
        changed[at] ^= 1 << chosen.randrange(8)
        (tmp_path / "g").write_bytes(changed)
        with pytest.raises(SavedFileError):
            tg.load(tmp_path / "g")


def test_damaged_part_is_named(saved, tmp_path):
    content = saved.read_bytes()
    at = content.index(b"aten.")
    (tmp_path / "g").write_bytes(content[:at] + b"A" + content[at + 1 :])
    with pytest.raises(CorruptFileError, match=r"its part graphs/0.txt is damaged"):
        tg.load(tmp_path / "g")


@pytest.mark.parametrize("share", [0.01, 0.3, 0.7, 0.99])
def test_truncated_file(saved, tmp_path, share):
    content = saved.read_bytes()
    (tmp_path / "g").write_bytes(content[: max(50, int(len(content) * share))])
    with pytest.raises(CorruptFileError, match="ends too early"):
        tg.load(tmp_path / "g")


def a_zip():
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as z:
        z.writestr("readme", "hello")
    return file.getvalue()


def a_torch_file():
    file = io.BytesIO()
    torch.save({"a": torch.ones(3)}, file)
    return file.getvalue()


@pytest.mark.parametrize(
    "content", [b"", b"PK", b"no file of ours", bytes(1000), a_zip(), a_torch_file()]
)
def test_foreign_file(tmp_path, content):
    (tmp_path / "g").write_bytes(content)
    with pytest.raises(ForeignFileError, match="is not a file of tg.save"):
        tg.load(tmp_path / "g")


def test_newer_format(saved):
    with pytest.raises(
        NewerFileError, match="format 2; this version of tograph reads formats up to 1"
    ):
        tg.load(rewritten(saved, lambda m: m.update(format=2)))


def test_missing_file_is_an_os_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        tg.load(tmp_path / "none")
    with pytest.raises(IsADirectoryError):
        tg.load(tmp_path)


def test_unwritable_place(tmp_path):
    @tg.function
    def f(x):
        return x

    f(torch.ones(1))
    with pytest.raises(FileNotFoundError) as caught:
        tg.save(f, tmp_path / "no" / "such")
    assert caught.value.filename == str(tmp_path / "no" / "such")
    with pytest.raises(IsADirectoryError):
        tg.save(f, tmp_path)
    assert os.listdir(tmp_path) == []


def test_failed_write_leaves_the_old_file(saved, monkeypatch):
    before = saved.read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(zipfile.ZipFile, "writestr", full)
    with pytest.raises(OSError, match="No space") as caught:
        archive.write(saved, {archive.MANIFEST: b"{}"})
    assert caught.value.filename == str(saved)
    assert saved.read_bytes() == before
    assert not [n for n in os.listdir(saved.parent) if n.startswith(".tograph")]


def test_same_function_same_bytes(saved, tmp_path):
    tg.save(tg.load(saved), tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == saved.read_bytes()
    assert stat.S_IMODE(os.stat(saved).st_mode) & 0o600 == 0o600


def mutations(tree, chosen):
    """The tree with one place replaced, removed or doubled."""
    tree = copy.deepcopy(tree)
    spots = []

    def walk(x):
        for key in list(x) if isinstance(x, dict) else range(len(x)):
            spots.append((x, key))
            if isinstance(x[key], (dict, list)):
                walk(x[key])

    walk(tree)
    owner, key = chosen.choice(spots)
    how = chosen.randrange(3)
    if how == 0:
        del owner[key]
    elif how == 1:
        owner[key] = chosen.choice([None, -1, 7, 10**20, "x", "class", [], ["class", "exec"], {}, True, [[]], 1.5])  # fmt: skip
    elif isinstance(owner, list):
        owner.insert(key, owner[key])
    return tree


def test_manifest_of_someone_else(saved):
    """With a right checksum, what does not fit is still one kind of error."""
    chosen = random.Random(1)
    refused = 0
    for _ in range(300):
        path = rewritten(saved, lambda m: mutations(m, chosen))
        try:
            tg.load(path)
        except SavedFileError:
            refused += 1
    assert refused > 100


def test_graph_cannot_name_code(saved):
    """What a graph names is an op, an exception or a constant; never a function of Python or a file."""
    parts = archive.read(saved)
    text = parts["graphs/0.txt"].decode()
    path = saved.parent / "changed"

    def load(changed):
        assert changed != text
        archive.write(path, {**parts, "graphs/0.txt": changed.encode()})
        return tg.load(path)

    with pytest.raises(tg.errors.TographError, match="not a built-in exception: 'exec'"):
        load(text.replace("tg.raise('ValueError'", "tg.raise('exec'"))(torch.full((3,), 1e9), [])
    with pytest.raises(CorruptFileError, match=r"no graph of tg.save has the op aten.from_file"):
        load(text.replace("aten.sum.default(", "aten.from_file.default('f', True, ", 1))
    with pytest.raises(CorruptFileError, match="no such op: os.system"):
        load(text.replace("aten.sum.default(", "os.system(", 1))
