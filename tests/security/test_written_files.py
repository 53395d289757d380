"""Files that users name are written whole, for their owner only, and never through a link or into a device."""

from __future__ import annotations

import os
import socket
import stat
from datetime import UTC, datetime
from types import SimpleNamespace

import click
import pytest

from vsphere_ai import app
from vsphere_ai.app.project.example_files import copy_examples
from vsphere_ai.app.project.schemas import write_schema
from vsphere_ai.app.runs import plan_playbook
from vsphere_ai.app.training.acceptance import farm as accept_farm
from vsphere_ai.app.training.benchmarks import megatron as benchmark_megatron
from vsphere_ai.app.training.benchmarks import parse as benchmark_parse
from vsphere_ai.app.training.nodes import nccl_topology
from vsphere_ai.app.watching.report_files import save_pages, save_report
from vsphere_ai.benchmarks.baseline import ExpectedBandwidth
from vsphere_ai.cli.main import command
from vsphere_ai.errors import UsageError
from vsphere_ai.fleet import plan as fleet_plan
from vsphere_ai.fleet.authority import CertificatesRequest, make_certificates
from vsphere_ai.health.certificate import Certificate
from vsphere_ai.model.nodes import Node
from vsphere_ai.security import files
from vsphere_ai.web.metrics import write_textfile

NAMES = {"to", "certificate", "learned", "folder", "fix"}
"""Names of the parameters whose files are written; every other parameter with a path is read."""
READ = {
    *("playbook", "playbooks", "what", "inventory", "vars_files", "job", "checked", "profile", "baseline", "file"),
    *("files", "faults", "xml", "attest", "attestations", "ca_file", "tls_ca", "tls_cert", "tls_key"),
}


def _certificate(path):
    accept_farm._write(Certificate("vc", "set", "tool", datetime.now(UTC), (), {}, {}), path)


def _topologies(folder):
    nccl_topology.save_topologies(SimpleNamespace(files=[((Node("vm-1", "10.0.0.1", "eth0"),), "<system/>")]), folder)


def _megatron(path):
    result = SimpleNamespace(findings=(), reached=SimpleNamespace(tflops=3.0), test=SimpleNamespace(name="m"), gpus=8)
    benchmark_megatron._learn(SimpleNamespace(learned=path), result)


EXPECTED = ExpectedBandwidth(operation="all_reduce", busbw=1.0)

WRITERS = {
    "plan to": lambda path: plan_playbook.save_plan(SimpleNamespace(saved=lambda: {"seal": ""}), path),
    "fleet plan to": lambda path: fleet_plan.save_fleet_plan(SimpleNamespace(saved=lambda: {}), path),
    "report to": lambda path: save_report(path, "report"),
    "run report to": lambda path: save_report(path, "report"),
    "show to": lambda path: app.write_new({path: "- hosts: all\n"}),
    "assess fix": lambda path: app.write_new({path: "- hosts: all\n"}),
    "health learned": lambda path: app.write_new({path: "profile: {}\n"}),
    "serve to": lambda path: write_textfile(path, b"up 1\n"),
    "bench megatron learned": _megatron,
    "bench nccl learned": lambda path: benchmark_parse.write_baseline(path, [EXPECTED]),
    "bench parse learned": lambda path: benchmark_parse.write_baseline(path, [EXPECTED]),
    "accept certificate": _certificate,
    "schema to": lambda path: write_schema("job", path),
}


def _certificates(folder):
    files.make_private_folder(folder.parent)
    make_certificates(CertificatesRequest(folder))


FOLDERS = {
    "fleet certificates folder": _certificates,
    "fleet report to": lambda folder: save_pages(folder, {"index.html": "page"}),
    "render nccl-topo to": _topologies,
    "examples to": lambda folder: copy_examples("", folder),
    "init folder": lambda folder: app.write_new({folder / "a" / "x.yml": "", folder / "schemas" / "y.json": ""}),
}


def parameters():
    """Every parameter of every command that is a path, as its command and its name."""

    def below(each, name):
        yield from (f"{name} {p.name}" for p in each.params if isinstance(p.type, click.Path))
        if isinstance(each, click.Group):
            for word in each.list_commands(context):
                yield from below(each.get_command(context, word), f"{name} {word}".strip())

    context = click.Context(command)
    return sorted(below(command, ""))


def test_every_option_that_names_a_file_to_write_is_tried_here():
    found = parameters()
    assert {each for each in found if each.rpartition(" ")[2] in NAMES} == {*WRITERS, *FOLDERS}
    assert {each.rpartition(" ")[2] for each in found} - NAMES == READ, "is what it names read, or written?"


@pytest.fixture(params=[0, 0o077], ids=["umask 0", "umask 077"])
def umask(request):
    before = os.umask(request.param)
    yield
    os.umask(before)


@pytest.fixture
def target(tmp_path):
    """A path in a folder that does not exist yet; what is written below it is looked at."""
    (tmp_path / "out").mkdir(mode=0o700)
    return tmp_path / "out" / "new.json"


@pytest.mark.usefixtures("umask")
@pytest.mark.parametrize("name", WRITERS)
def test_a_file_is_its_owners(name, target):
    WRITERS[name](target)
    assert stat.S_IMODE(target.lstat().st_mode) == 0o600
    assert [each.name for each in target.parent.iterdir()] == [target.name], "a draft was left"


@pytest.mark.usefixtures("umask")
@pytest.mark.parametrize("name", FOLDERS)
def test_a_folder_and_what_is_in_it_is_its_owners(name, tmp_path):
    FOLDERS[name](tmp_path / "a" / "b")
    modes = {
        str(path.relative_to(tmp_path)): (path.is_dir(), stat.S_IMODE(path.lstat().st_mode))
        for path in tmp_path.rglob("*")
    }
    assert len(modes) > 2
    wrong = {n: oct(mode) for n, (is_dir, mode) in modes.items() if mode & 0o077 or (is_dir and mode != 0o700)}
    assert not wrong


UNFIT = ("link", "dangling link", "named pipe", "socket", "device", "folder")


@pytest.fixture(params=UNFIT)
def unfit(request, tmp_path):
    """Something that is no file, where a file is to be written; and the file of another that must not change."""
    path, other = tmp_path / "target", tmp_path / "other"
    other.write_text("kept")
    match request.param:
        case "link":
            path.symlink_to(other)
        case "dangling link":
            path.symlink_to(tmp_path / "nothing")
        case "named pipe":
            os.mkfifo(path)
        case "socket":
            with socket.socket(socket.AF_UNIX) as made:
                made.bind(str(path))
        case "device":
            path = files.Path(os.devnull)
        case "folder":
            path.mkdir()
    yield path
    assert other.read_text() == "kept"
    assert not (tmp_path / "nothing").exists()
    assert {each.name for each in tmp_path.iterdir()} <= {"target", "other"}, "a draft was left"


@pytest.mark.parametrize("name", WRITERS)
def test_nothing_but_a_file_is_written_to(name, unfit):
    before = unfit.lstat()
    with pytest.raises(UsageError) as raised:
        WRITERS[name](unfit)
    assert str(unfit) in raised.value.message
    assert raised.value.rule in ("usage.output", "usage.not-overwritten", "usage.schema")
    after = unfit.lstat()
    assert (after.st_ino, after.st_mode, after.st_dev) == (before.st_ino, before.st_mode, before.st_dev)


@pytest.mark.parametrize("name", WRITERS)
def test_a_folder_that_is_not_there_is_named(name, tmp_path):
    if name in ("show to", "health learned", "assess fix"):
        pytest.skip("it makes the folder")
    with pytest.raises(UsageError) as raised:
        WRITERS[name](tmp_path / "missing" / "x.json")
    assert "missing" in raised.value.message


@pytest.mark.parametrize("at", [1, 2, 3])
def test_an_earlier_file_stays_whole_where_the_disk_is_full(at, tmp_path, monkeypatch):
    path, calls = tmp_path / "report", []
    path.write_text("earlier")

    def full(*_arguments):
        calls.append(1)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, ("fchmod", "fsync", "rename")[at - 1], full)
    if at == 3:
        monkeypatch.setattr(files.Path, "replace", full)
    with pytest.raises(UsageError, match="No space left"):
        save_report(path, "new")
    assert calls
    assert path.read_text() == "earlier"
    assert [each.name for each in tmp_path.iterdir()] == ["report"]
