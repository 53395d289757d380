"""`make measures`: lines, modules and functions of each door, beside those of a revision."""

from __future__ import annotations

import subprocess

import pytest

from tools import measures
from tools.measures import Size, at_revision, here, last_release, main, size_of, sizes, table

MODULE = (
    '"""A module."""\n\n\nclass Kept:\n    def one(self):\n        return lambda: 1\n\n\nasync def two():\n    pass\n'
)


def git(folder, *words):
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *identity, "-C", str(folder), *words], check=True, capture_output=True)


def write(folder, **texts):
    for name, text in texts.items():
        path = folder / "vsphere_ai" / f"{name.replace('__', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")


@pytest.fixture
def repository(tmp_path):
    """Two commits: a door with a module; the module and a second door, and an uncommitted line at the root."""
    git(tmp_path, "init", "-q")
    write(tmp_path, errors="A = 1\n", gpu__one=MODULE)
    for number in range(2):
        git(tmp_path, "add", ".")
        git(tmp_path, "commit", "-q", "-m", f"{number}")
        write(tmp_path, lab__deep__two=MODULE)
    write(tmp_path, errors="A = 1\nB = 2\n")
    (tmp_path / "examples").mkdir()
    (tmp_path / "examples" / "no_module.py").write_text(MODULE, "utf-8")
    (tmp_path / "vsphere_ai" / "examples").symlink_to(tmp_path / "examples")
    return tmp_path


def test_lines_and_functions_of_a_module():
    assert size_of(MODULE) == Size(10, 1, 2)
    assert size_of("") == Size(0, 1, 0)


def test_doors_now_and_at_a_revision(repository):
    assert sizes(here(repository)) == {"(root)": Size(2, 1, 0), "gpu": Size(10, 1, 2), "lab": Size(10, 1, 2)}
    assert sizes(at_revision(repository, "HEAD~1")) == {"(root)": Size(1, 1, 0), "gpu": Size(10, 1, 2)}


def test_what_is_compared_by_default(repository, monkeypatch):
    first = subprocess.run(
        ["git", "-C", repository, "rev-parse", "--short", "HEAD~1"], capture_output=True, text=True
    ).stdout
    assert last_release(repository) == first.strip()  # there are fewer commits than it would go back
    monkeypatch.setattr(measures, "COMMITS_BEFORE", 0)
    assert last_release(repository) != first.strip()
    git(repository, "tag", "v1", "HEAD~1")
    assert last_release(repository) == "v1"


def test_growth_is_printed_for_each_door_and_together(repository, capsys):
    assert main(["HEAD~1"], repository) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith("HEAD~1")
    assert [line.split() for line in lines[3:]] == [
        ["(root)", "2", "+1", "1", "+0", "0", "+0"],
        ["gpu", "10", "+0", "1", "+0", "2", "+0"],
        ["lab", "10", "+10", "1", "+1", "2", "+2"],
        ["together", "22", "+11", "3", "+1", "4", "+2"],
    ]


def test_a_door_that_is_gone():
    assert table({}, {"gpu": Size(10, 1, 2)}).splitlines()[1].split() == ["gpu", "0", "-10", "0", "-1", "0", "-2"]


def test_no_such_revision(repository, capsys):
    assert main(["nowhere"], repository) == 64
    assert main(["a", "b"], repository) == 64
    assert "nowhere" in capsys.readouterr().err
