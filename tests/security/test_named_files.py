"""Files that are named, by a user or in a file, and are none, or are elsewhere: refused at once, and never quoted."""

from __future__ import annotations

import os
import signal
import socket
from pathlib import Path

import pytest

from vsphere_ai.app.training.acceptance import farm as accept_farm
from vsphere_ai.app.training.launch import job as launch_job
from vsphere_ai.connect import tls
from vsphere_ai.connect.secure_shell import ssh_login
from vsphere_ai.connect.secure_shell.hostkeys import HostKeys
from vsphere_ai.connect.secure_shell.ssh_endpoint import SshEndpoint
from vsphere_ai.connect.tls import Endpoint
from vsphere_ai.errors import Denied, InputError, UsageError, VsphereAiError
from vsphere_ai.security import credentials, files

CANARY = "hunter2-of-another"
JOB = "training_job: a\nnodes: {playbook: %s, set: a}\nscript: /a.py\n"
INVENTORY = 'vcenters: {vc: {address: 127.0.0.1, port: 1, username: u, password: "env:X"}}\n'
PLAY = "- hosts: all\n  mig: {mode: enabled}\n"


@pytest.fixture(autouse=True)
def in_time():
    """Nothing here may block: a named pipe without a writer would, for ever."""

    def late(*_):
        raise AssertionError("it blocks")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(30)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


UNFIT = ("named pipe", "socket", "device", "folder", "link to a named pipe", "link to itself", "huge", "unreadable")


def _denied(path):
    """`os.open` as it is for a user that may not read a file."""
    opened = os.open

    def denied(name, *arguments, **options):
        if Path(os.path.abspath(os.fsdecode(name))) == path:
            raise PermissionError(13, "Permission denied", str(name))
        return opened(name, *arguments, **options)

    return denied


@pytest.fixture(params=UNFIT)
def unfit(request, tmp_path, monkeypatch):
    """The path of something that is no file that could be read."""
    path = tmp_path / "x.yml"
    match request.param:
        case "named pipe":
            os.mkfifo(path)
        case "link to a named pipe":
            os.mkfifo(tmp_path / "pipe")
            path.symlink_to("pipe")
        case "socket":
            with socket.socket(socket.AF_UNIX) as made:
                made.bind(str(path))
        case "device":
            path = Path("/dev/zero")
        case "folder":
            path.mkdir()
        case "link to itself":
            path.symlink_to(path)
        case "huge":
            with path.open("wb") as file:
                file.truncate(1 << 34)
        case "unreadable":
            path.write_text(CANARY)
            path.chmod(0)
            if os.access(path, os.R_OK):  # root reads everything
                monkeypatch.setattr(os, "open", _denied(path))
    return path


def _endpoint(**more):
    return SshEndpoint("esx01", "127.0.0.1", 22, "root", Path("known_hosts"), **more)


FUNCTIONS = {
    "CA file": lambda path: tls.context(Endpoint("127.0.0.1", 1, "u", "", ca_file=path), 1.0),
    "known_hosts": HostKeys,
    "SSH key": lambda path: ssh_login.read_key(_endpoint(key_file=path)),
    "password": lambda path: credentials.fetch(f"file:{path}"),
    "certificate": accept_farm.read_certificate,
    "job": launch_job.load_job,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_is_no_file_is_refused_at_once(name, unfit):
    with pytest.raises(VsphereAiError) as raised:
        FUNCTIONS[name](unfit)
    assert raised.value.exit_code in (4, 64, 65)
    assert raised.value.exit_code != 70


COMMANDS = {
    "playbook": lambda p, i: ("plan", p, "-i", i),
    "inventory": lambda p, _: ("plan", "play.yml", "-i", p),
    "values": lambda p, i: ("plan", "play.yml", "-i", i, "--vars-file", p),
    "saved plan": lambda p, i: ("report", p),
    "attestations": lambda p, i: ("assess", "-i", i, "--attest", p),
    "profile": lambda p, i: ("health", "*", "-i", i, "--profile", p),
    "job": lambda p, i: ("launch", "torchrun", "-f", p, "-i", i),
    "result": lambda p, _: ("bench", "parse", p),
    "baseline": lambda p, _: ("bench", "parse", "play.yml", "--baseline", p),
    "slurm": lambda p, _: ("render", "slurm", "--check", p),
    "topology": lambda p, _: ("render", "nccl-topo", "--check", p),
    "manifest": lambda p, _: ("render", "spiderpool", "--check", p),
    "nhc": lambda p, _: ("render", "nhc", "--check", p),
    "rules": lambda p, _: ("render", "prometheus", "--check", p),
    "parted": lambda p, _: ("mig", "parted", p, "c", "--gpu", "a100-40gb"),
    "xml": lambda p, _: ("mig", "explain", "1g.5gb", "--xml", p),
    "scenario": lambda p, _: ("lab", "up", "--scenario", p),
    "faults": lambda p, _: ("lab", "up", "--faults", p),
    "certificate of a fleet": lambda p, i: (
        *("fleet", "plan", "play.yml", "-i", i, "--executor", "dask:tls://127.0.0.1:1"),
        *("--tls-ca", p, "--tls-cert", p, "--tls-key", p),
    ),
    "plan in place of": lambda p, i: ("plan", "play.yml", "-i", i, "--to", p),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_refuses_what_is_no_file(name, unfit, tool, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(tmp_path / "lab"))
    (tmp_path / "play.yml").write_text(PLAY)
    (tmp_path / "inventory.yml").write_text(INVENTORY)
    code = tool(*COMMANDS[name](unfit, "inventory.yml"))
    assert code in (1, 4, 64, 65), tool.err
    assert str(unfit.name) in tool.err + tool.out
    assert CANARY not in tool.err + tool.out


BOMBS = {
    "deep JSON": "[" * 100_000,
    "deep object": '{"a":' * 100_000,
    "wide JSON": '{"digest": [' + "{}," * 4_100_000 + "{}]}",
    "wide YAML": "baseline: 1\nnccl:\n" + "- {operation: all_reduce, busbw: 1.0}\n" * 52_000,
    "deep YAML": "- " * 20_000,
    "nested XML": "<nvidia_smi_log>" + "<a>" * 1_000_000,
    "nested topology": "<system>" + "<cpu>" * 20_000 + "</cpu>" * 20_000 + "</system>",
    "open comments": "<!--" * 1_000_000,
}


@pytest.mark.parametrize("bomb", BOMBS)
@pytest.mark.parametrize("name", ["saved plan", "baseline", "xml", "topology", "manifest", "ansible", "accelerate"])
def test_a_bomb_is_refused_in_time(name, bomb, tool, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "play.yml").write_text("x\n")
    (tmp_path / "x.json").write_text(BOMBS[bomb])
    commands = {n: (lambda p, _, n=n: ("render", n, "--check", p)) for n in ("ansible", "accelerate")} | COMMANDS
    assert tool(*commands[name]("x.json", "")) in (1, 2, 3, 64, 65), tool.err


@pytest.mark.parametrize("bomb", ["deep JSON", "deep object", "wide JSON", "wide YAML"])
def test_a_certificate_that_is_a_bomb(tmp_path, bomb):
    """`accept --certificate FILE` goes on from the certificate that is there."""
    (tmp_path / "c.json").write_text(BOMBS[bomb])
    with pytest.raises(UsageError) as raised:
        accept_farm.read_certificate(tmp_path / "c.json")
    assert raised.value.rule == "usage.certificate"


# -- outside of the project


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project with a secret beside it, and links of every kind that lead there."""
    project = tmp_path / "project"
    (project / "jobs").mkdir(parents=True)
    (tmp_path / "secret").write_text(f"{CANARY}: [{CANARY}\n")
    (tmp_path / "secret.yml").write_text(f"{CANARY}: x\n")
    (project / "link.yml").symlink_to("../secret")
    (project / "valid.yml").symlink_to("../secret.yml")
    (project / "away").symlink_to("..")
    (project / "play.yml").write_text(PLAY)
    (project / "inventory.yml").write_text(INVENTORY)
    monkeypatch.chdir(project)
    return project


OUTSIDE = (
    "../secret",
    "link.yml",
    "away/secret",
    "jobs/../../secret",
    "/etc/passwd",
    "/proc/self/environ",
    "/dev/stdin",
)


@pytest.mark.parametrize("name", [*OUTSIDE, "secret\\0.yml", "."])
@pytest.mark.parametrize(
    "text",
    [
        pytest.param(JOB, id="job"),
        pytest.param("- include: %s\n", id="include"),
        pytest.param("- hosts: all\n  mig: {parted: {file: %s, config: c}}\n", id="parted"),
        pytest.param('- hosts: "${ref:%s.out}"\n  mig: {mode: enabled}\n', id="reference"),
    ],
)
def test_a_name_in_a_file_leads_nowhere_else(project, tool, text, name):
    (project / "x.yml").write_text(text % f'"{name}"' if '"$' not in text else text % name)
    command = ("launch", "torchrun", "-f") if text == JOB else ("plan",)
    assert tool(*command, "x.yml", "-i", "inventory.yml") == 65
    assert "x.yml:" in tool.err or name == "."
    assert CANARY not in tool.err + tool.out
    assert "root:" not in tool.err + tool.out
    assert "PATH=" not in tool.err + tool.out


def test_a_job_names_a_playbook_beside_it_or_below(project, tool):
    (project / "x.yml").write_text(JOB % "play.yml")
    assert tool("launch", "torchrun", "-f", "x.yml", "-i", "inventory.yml") not in (65, 70), tool.err
    (project / "jobs" / "y.yml").write_text(JOB % "../play.yml")
    assert tool("launch", "torchrun", "-f", "jobs/y.yml", "-i", "inventory.yml") == 65
    assert "jobs/y.yml:2:19  error  '../play.yml' is not a file below the folder of jobs/y.yml" in tool.err


@pytest.mark.parametrize("link", ["link.yml", "valid.yml"])
@pytest.mark.parametrize(
    "name",
    [name for name in COMMANDS if name not in ("result", "xml", "plan in place of", "certificate of a fleet")],
)
def test_a_link_that_leads_out_is_not_quoted_from(project, tool, name, link, monkeypatch):
    """A repository of a stranger may have one: what its target says stays where it is, on a screen and in CI."""
    monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(project / "lab"))
    code = tool(*COMMANDS[name](link, "inventory.yml"))
    assert code in (1, 4, 64, 65), tool.err
    assert CANARY not in tool.err + tool.out
    assert link in tool.err + tool.out


def test_the_same_file_named_itself_is_quoted(project, tool):
    assert tool("plan", "../secret", "-i", "inventory.yml") == 65
    assert CANARY in tool.err, "else the test above says nothing"
    assert tool("plan", "link.yml", "-i", "inventory.yml") == 65
    assert str((project / ".." / "secret").resolve()) in tool.err, "the message says which file to name"


def test_a_link_within_the_folder_is_an_ordinary_name(project, tool):
    (project / "jobs" / "real.yml").write_text("- hosts: ]\n")
    (project / "inside.yml").symlink_to("jobs/real.yml")
    assert tool("plan", "inside.yml", "-i", "inventory.yml") == 65
    assert "- hosts: ]" in tool.err


@pytest.mark.parametrize("name", ["CA file", "known_hosts", "SSH key"])
def test_files_of_secrets_may_be_anywhere_and_are_not_repeated(name, project):
    """Their content is no YAML; what cannot be used of it is named by its path alone."""
    if name == "known_hosts":
        assert not FUNCTIONS[name](project / "link.yml").known("esx01", "127.0.0.1", 22)
        return
    with pytest.raises(Denied) as raised:
        FUNCTIONS[name](project / "link.yml")
    assert CANARY not in f"{raised.value.message}{raised.value.remedy}"


def test_an_empty_ca_file_is_not_the_systems_trust(tmp_path):
    """`ssl` takes the authorities of the system where it is given none."""
    path = tmp_path / "ca.pem"
    for text in ("", "\n", "# nothing\n"):
        path.write_text(text)
        with pytest.raises(Denied, match="CA file"):
            tls.context(Endpoint("127.0.0.1", 1, "u", "", ca_file=path), 1.0)


# -- names


@pytest.mark.parametrize("name", ["a.yml", "b/a.yml", "./a.yml", "b/../a.yml", "not-there/x"])
def test_names_below_a_folder(tmp_path, name):
    (tmp_path / "b").mkdir()
    assert files.below(tmp_path, name) == tmp_path / name


@pytest.mark.parametrize("name", ["", "..", "../a", "/a", "b/../../a", "a\0b", "out/x", "loop"])
def test_names_that_lead_out(tmp_path, name):
    (tmp_path / "b").mkdir()
    (tmp_path / "out").symlink_to("..")
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(files.Outside):
        files.below(tmp_path, name)


def test_the_excerpts_of_errors_are_of_files_of_the_project_only(project):
    from vsphere_ai.language.yaml_files.document import load

    with pytest.raises(InputError) as raised:
        load(Path("link.yml"))
    (fault,) = raised.value.diagnostics
    assert fault.mark.line > 0, "the place is said"
    assert fault.excerpt == ""
    assert CANARY not in str(raised.value)


def test_a_job_whose_playbook_is_a_pipe(project):
    os.mkfifo(project / "pipe.yml")
    (project / "x.yml").write_text(JOB % "pipe.yml")
    job = launch_job.load_job(project / "x.yml")
    with pytest.raises((InputError, UsageError)):
        launch_job.job_nodes(job, project / "x.yml", launch_job.EstateRequest(project / "inventory.yml"))
