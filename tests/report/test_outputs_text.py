"""Outputs as they are printed, word for word, in every format."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from pathlib import Path

import pytest

from vsphere_ai.errors import Mark, UsageError
from vsphere_ai.report.plans import outputs_text as report
from vsphere_ai.sets.outputs import OutputItem, OutputProblem, OutputValue

GOLDEN = Path(__file__).parent / "golden" / "outputs.txt"
MARK = Mark("train.yml", 12, 5)


def output(name, *items, listed=False, problems=()):
    return OutputValue(name, items, listed, MARK, problems)


NODES = output("nodes", OutputItem("10.0.0.1", "a-01", 2), OutputItem("10.0.0.2", "a-02"), listed=True)
OUTPUTS = (
    output("master", OutputItem("10.0.0.1", "a-01", 2)),
    NODES,
    output("moid", OutputItem(None, "a-01", 2, "known after apply")),
    output("port", OutputItem(29500)),
    output("strange", OutputItem("it's $(x)\nb")),
    output("on", OutputItem(True)),
    output("ports", OutputItem(1), OutputItem(2), listed=True),
)
REFUSED = output(
    "gone",
    OutputItem(None, "a-03", reason="it is not powered on"),
    problems=(OutputProblem("a-03", "output.off", "it is not powered on", "apply the playbook first"),),
)


def test_golden():
    """Write the file anew with UPDATE_GOLDEN=1, and read the difference before committing it."""
    every = (*OUTPUTS, REFUSED)
    text = "\n".join(
        (
            "\n".join(report.outputs_text(every)),
            report.problems_text(every),
            report.reasons_text(every),
            report.env_text(OUTPUTS),
            report.hostfile_text((NODES,)),
            json.dumps({each.name: each.document.as_json() for each in (NODES, REFUSED)}, indent=2),
        )
    )
    if os.environ.get("UPDATE_GOLDEN"):
        GOLDEN.write_text(text + "\n", "utf-8")
    assert GOLDEN.read_text("utf-8") == text + "\n"


def test_a_shell_reads_the_variables_as_they_are():
    script = report.env_text(OUTPUTS) + 'printf "%s|" "$MASTER" "$NODES" "$MOID" "$STRANGE" "$ON"'
    found = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True).stdout
    assert found == "10.0.0.1|10.0.0.1,10.0.0.2||it's $(x)\nb|true|"
    assert len(shlex.split(report.env_text(OUTPUTS))) == len(OUTPUTS)


@pytest.mark.parametrize(
    "outputs",
    [OUTPUTS, OUTPUTS[:1], (output("x", OutputItem(None, "a-01", reason="no address"), listed=True),)],
    ids=["two lists", "no list", "not known"],
)
def test_what_no_host_file_can_be_made_of(outputs):
    with pytest.raises(UsageError):
        report.hostfile_text(outputs)
