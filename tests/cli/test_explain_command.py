"""`explain`: text of at most 80 columns and JSON say the same, with a source for each part."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from docs.test_pages import rule_ids, said_ids

from vsphere_ai.app.project.explanations import _known
from vsphere_ai.app.project.explanations.keys import keys_of
from vsphere_ai.cli.main import command
from vsphere_ai.compat import assessment, gate
from vsphere_ai.errors import UsageError
from vsphere_ai.gpu.catalog import boards
from vsphere_ai.health.checks import IN_WORDS
from vsphere_ai.health.kernel.xids import table
from vsphere_ai.health.registry import checks
from vsphere_ai.report.explained_text import explained_text
from vsphere_ai.resources import kinds

ROOT = Path(__file__).parents[2]
KEYS_SHOWN = "Shown in plans, but not set in a playbook"


def explain(*words):
    done = CliRunner().invoke(command, ["explain", *words], standalone_mode=False)
    if done.exception:
        raise done.exception
    return done.output


def parts():
    found = json.loads(explain("rdma-options", "-o", "json"))
    return [*found["modes"], *found["devices"]]


def transports():
    return json.loads(explain("infiniband", "-o", "json"))["transports"]


@pytest.mark.parametrize(("topic", "of"), [("rdma-options", parts), ("infiniband", transports)])
def test_text_is_narrow_and_says_what_json_says(topic, of):
    text = explain(topic)
    assert max(map(len, text.splitlines())) <= 80
    flat = " ".join(text.split())
    for part in of():
        for value in part.values():
            for each in value if isinstance(value, list) else [value]:
                assert each in flat


def test_the_four_modes_and_three_devices_have_sources_and_name_kinds_that_there_are():
    assert [part["name"] for part in parts()] == [
        "InfiniBand SR-IOV", "IPoIB", "RoCE SR-IOV", "RoCE macvlan or ipvlan, shared",
        "PVRDMA", "SR-IOV virtual function", "DirectPath I/O",
    ]  # fmt: skip
    assert all(part["sources"] for part in parts())
    assert all(part["kind"].split()[0] in kinds() for part in parts() if "kind" in part)


def test_three_transports_have_sources_and_name_kinds_that_there_are():
    assert [each["name"] for each in transports()] == ["InfiniBand", "RoCE", "iWARP"]
    assert all(each["sources"] for each in transports())
    named = {word for each in transports() for word in re.findall(r"[a-z_]+", each["vsphere"]) if word in kinds()}
    assert named == {"pci_devices", "pvrdma", "pvrdma_host", "adapters", "sriov"}


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("mgi", "'mig'"),
        ("vgpu.capacity", "'vgpu."),
        ("rdma-option", "rdma-options"), ("mig.laout", "mig.layout"), ("vm.rdma-pat", "vm.rdma-path"),
        ("a100-40g", "a100-40gb"), ("gpu-cuont", "gpu-count"), ("xyzzy", "lists all names"),
    ],
)  # fmt: skip
def test_an_unknown_name_is_refused_with_what_is_meant(name, near):
    with pytest.raises(UsageError) as refused:
        explain(name)
    assert refused.value.rule == "usage.topic"
    assert near in refused.value.remedy


def named(name):
    """What is explained of a name: groups, and that there is something in it."""
    found = json.loads(explain(name, "-o", "json"))["found"]
    for each in found:
        said = each["title"], *each["text"], *(p["text"] for part in each["parts"] for p in part["pairs"])
        assert len(" ".join(said)) > 10, each["name"]
        assert each["page"], each["name"]
    return {(each["group"], each["name"]) for each in found}


@pytest.fixture(scope="module")
def known():
    return {(e.group, e.name): e for several in _known().values() for e in several}


def strings_of_calls(*functions):
    """First arguments of calls of these functions in the product: the ids of what they find."""
    for path in sorted((ROOT / "vsphere_ai").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            name = getattr(node.func, "id", getattr(node.func, "attr", "")) if isinstance(node, ast.Call) else ""
            first = node.args[0] if name in functions and node.args else None
            if isinstance(first, ast.Constant) and isinstance(first.value, str):
                yield path.relative_to(ROOT / "vsphere_ai").as_posix(), first.value


def test_every_rule_is_explained(known):
    """Rules of check and assess, refusals of plans, errors, and whatever finds something by an id."""
    ids = {r.id for r in gate.rules()} | {r.id for r in assessment.rules()} | set(rule_ids()) | said_ids()
    ids |= {name for path, name in strings_of_calls("Finding", "of_run") if "." in name and not path.startswith("lab/")}
    assert sorted(i for i in ids if ("rule", i) not in known) == []
    assert len(ids) > 400


def test_every_check_of_health_pre_flight_and_doctor_is_explained(known):
    every = {n for p, n in strings_of_calls("Finding", "_fail", "OfVm") if p.startswith("health/")}
    every |= set(IN_WORDS.values()) - {""} | set(checks())
    assert sorted(n for n in every if ("check", n) not in known) == []
    assert {"gpu-count", "port-reach", "xid"} <= every
    areas = {f"doctor.{n.lower()}" for p, n in strings_of_calls("_area") if p.startswith("app/project/doctor")}
    areas |= {"doctor.connection", "doctor.host-key", "doctor.ssh", "doctor.drs"}
    assert sorted(n for n in areas if ("rule", n) not in known) == []
    assert "doctor.certificate" in areas


def test_every_kind_and_every_key_is_explained(known):
    for name, kind in kinds().items():
        page = known["kind", name]
        keys = {key.name for key in keys_of(kind)}
        assert keys == {n for p in page.parts if p.title in ("Keys", KEYS_SHOWN) for n, _ in p.pairs}
        for key in keys:
            own = known["key", f"{name}.{key.replace('[]', '').replace('.*', '')}"]
            assert own.title in (ROOT / "docs" / "kinds" / f"{name}.md").read_text("utf-8").replace("\\|", "|")


def test_every_board_profile_type_and_xid_is_explained(known):
    for board in boards():
        assert known["board", board.key].title == board.title
        for profile in board.profile_names:
            assert ("MIG profile", profile) in known or profile in board.named_profiles
        for begin in board.vgpu_names:
            assert all(("vGPU type", f"{begin}-{ending.lower()}") in known for ending in board.types)
    for number, xid in table().xids.items():
        own = known["XID", f"{number}"]
        assert (xid.name in own.title, own.source) == (True, table().sources[xid.source])
    assert ("XID", "154") in known


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("mig", {("command", "mig"), ("kind", "mig")}),
        ("mig.layout", {("key", "mig.layout"), ("rule", "mig.layout")}),
        ("vm_set.nics[].type", {("key", "vm_set.nics.type")}),
        ("MIG.Layout", {("key", "mig.layout"), ("rule", "mig.layout")}),
        ("ssh.username", {("key", "ssh.username")}),
        ("evacuate", {("key", "rolling.evacuate"), ("rule", "rolling.evacuate")}),
        ("XID 79", {("XID", "79")}),
        ("xid79", {("XID", "79")}),
        ("79", {("XID", "79")}),
        ("ecc", {("check", "ecc"), ("lab defect", "ecc")}),
        ("grid_a100-3-20c", {("vGPU type", "grid_a100-3-20c")}),
        ("1g.5gb", {("MIG profile", "1g.5gb")}),
        ("fault.HostNotConnected", {("rule", "fault.NAME")}),
        ("NO_COLOR", {("variable", "NO_COLOR")}),
    ],
)
def test_names_are_found_as_an_operator_writes_them(asked, found):
    assert named(asked) == found


def test_a_rule_says_cause_and_remedy_and_a_key_type_and_example():
    refusal = explain("mig.no-gpu")
    assert ("cause" in refusal, "what to do" in refusal, "leave the host out" in refusal) == (True, True, True)
    key = explain("mig.layout")
    assert ("list of text" in key, "mig: {layout:" in key) == (True, True)


def test_without_a_name_it_lists_groups_in_80_columns_and_names_for_completion(known):
    text = explain()
    assert max(map(len, text.splitlines())) <= 80
    assert len(text.splitlines()) <= 100
    listed = json.loads(explain("-o", "json"))["topics"]
    assert listed["topic"] == ["busbw", "infiniband", "rdma-options"]
    hidden = {"MIG profile", "vGPU type"}
    assert {(g, n) for g, names in listed.items() for n in names if g not in ("topic", "command")} == {
        key for key in known if key[0] not in hidden
    }
    assert not [key for key in listed["key"] if " " in key.partition(".")[0]], "comments in examples are no headings"
    checks = text.partition("\nchecks (")[2].partition("\n\n")[0].partition("):")[0].partition("\n")[2]
    assert len(found := [each.strip() for each in checks.split(",")]) == len(set(found))
    words = command.get_command(click.Context(command), "explain").params[0]
    found = {c.value for c in words.shell_complete(click.Context(command), "vm.rd")}
    assert found == {"vm.rdma-path"}


@pytest.mark.parametrize(("asked", "has"), [("boards", "a100-40gb"), ("launch.", "launch.preflight"), ("xids", "79")])
def test_a_group_or_a_prefix_lists_its_names(asked, has):
    text = explain(asked)
    assert has in text
    assert max(map(len, text.splitlines())) <= 80


def test_every_text_is_narrow_but_for_examples_and_long_names(known):
    for each in known.values():
        code = {line.strip() for part in each.parts for line in part.code.splitlines()}
        for line in explained_text((each,)).splitlines():
            assert len(line) <= 80 or line.strip() in code or len(line.split()) == 1, line


def test_an_installed_package_explains_offline(tmp_path):
    """What a wheel holds, in a folder of its own: no other file of the repository is there."""
    pytest.importorskip("setuptools")
    left_out = shutil.ignore_patterns("__pycache__", "decisions", "examples")
    for name in ("setup.cfg", "pyproject.toml", "README.md", "LICENSE", "docs", "vsphere_ai"):
        own = ROOT / name
        copy = tmp_path / name
        shutil.copytree(own, copy, ignore=left_out, symlinks=True) if own.is_dir() else shutil.copy(own, copy)
    installed = tmp_path / "elsewhere" / "installed"
    build = [sys.executable, "-c", "import setuptools; setuptools.setup()", "build_py", "--build-lib", str(installed)]
    subprocess.run(build, cwd=tmp_path, capture_output=True, check=True)
    shutil.rmtree(tmp_path / "docs")
    done = subprocess.run(
        [sys.executable, "-m", "vsphere_ai", "explain", "mig.no-gpu"],
        cwd=installed, env=os.environ | {"PYTHONPATH": str(installed)}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == explain("mig.no-gpu")
    for path in (ROOT / "docs" / "schemas").iterdir():
        assert (installed / "vsphere_ai" / "docs" / "schemas" / path.name).read_bytes() == path.read_bytes()
