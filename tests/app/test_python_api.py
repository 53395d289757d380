"""The page of the Python API: its examples run against the lab, and its table is what `app` has."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from support import prefork
from support.gates import LONG

from vsphere_ai import app

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "python-api.md").read_text("utf-8")
EXAMPLES = re.findall(r"^```python\n(.*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL)
FUNCTIONS = re.findall(r"^\| `(\w+)` \| `(\w+)` \| `(\w+)` \|", PAGE, flags=re.MULTILINE)
SAID = {
    "app.open(": ["vCenter 7.0.2", "esx01.lab.local HostSystem:"],
    "result.plan.changed(": ["hardware ['version']", "steps, 0 problems"],
    "app.apply(": ["done: ", "exit code 0 of run"],
    "app.capacity(": ["GPUs that give vGPUs", "all VMs fit", "settings differ"],
    "report_in(": ["plan.html has "],
}


def test_every_example_of_the_page_is_tried():
    assert len(EXAMPLES) == len(SAID)


@pytest.mark.parametrize("call", SAID)
def test_an_example_runs(call, lab, tmp_path, monkeypatch):
    monkeypatch.setenv("VSPHERE_AI_STATE_DIR", str(tmp_path / "state"))
    (tmp_path / "playbooks").symlink_to(ROOT / "playbooks")
    (example,) = [e for e in EXAMPLES if call in e]
    done = prefork.run([sys.executable, "-c", example], capture_output=True, text=True, timeout=LONG, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for words in SAID[call]:
        assert words in done.stdout, done.stdout


@pytest.mark.parametrize(("function", "request_of", "result"), FUNCTIONS)
def test_a_function_of_the_page_is_there(function, request_of, result):
    assert callable(getattr(app, function))
    assert isinstance(getattr(app, request_of), type)
    assert function in app.__all__
    assert request_of in app.__all__


def test_no_module_hides_a_function():
    """`app.plan` is a function whatever was imported before: no module of the room has the name of one."""
    assert not {path.stem for path in Path(app.__file__).parent.glob("*.py")} & set(app.__all__)


def test_every_name_is_loaded_on_demand():
    for name in app.__all__:
        getattr(app, name)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = app.nothing
    program = "import sys; from vsphere_ai import app; print(*[m for m in ('pydantic', 'pyVmomi') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=LONG, check=True)
    assert done.stdout.strip() == ""
