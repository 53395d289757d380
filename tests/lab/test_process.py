"""The lab's process: start, find, stop, files, and the commands around it."""

import json
import os
import signal
import stat
import subprocess
import sys

import pytest
from click.testing import CliRunner

from vsphere_ai.cli.setup.lab import command
from vsphere_ai.errors import InputError, UsageError
from vsphere_ai.lab.front import process
from vsphere_ai.lab.front.record import LabRecord, read_record
from vsphere_ai.language.inventories.inventory import load_inventory

BARE = "name: bare\nhosts: [{name: esx1}]\n"


@pytest.fixture
def directory(tmp_path, monkeypatch):
    path = tmp_path / "lab"
    monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(path))
    yield path
    process.stop(path)


def run(*words):
    return CliRunner().invoke(command, words, catch_exceptions=True)


def test_up_status_reset_down(directory):
    up = run("up")
    assert up.exit_code == 0, up.output
    assert "esx01.lab.local" in up.output
    again = run("up")
    assert (again.exit_code, "already running" in again.output) == (0, True)
    shown = run("status")
    assert "ledger: 0 changes" in shown.output
    farm = json.loads(run("status", "-o", "json", "--ledger").output)
    assert farm["schema_version"] == 1
    assert [h["name"] for h in farm["hosts"] if h["cluster"] == "gpu-a"] == [f"esx0{n}.lab.local" for n in (1, 2, 3)]
    assert farm["ledger_entries"] == []
    assert "back at the start" in run("reset").output
    assert "down" in run("down").output
    assert "No lab is running" in run("down").output
    assert isinstance(run("status").exception, UsageError)
    assert isinstance(run("reset").exception, UsageError)


def test_the_files_are_private_and_in_inventory_format(directory):
    import yaml

    lab = process.start(directory)
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    for name in ("password", "ssh_password", "key.pem", "lab.json"):
        assert stat.S_IMODE((directory / name).stat().st_mode) == 0o600
    connection = yaml.safe_load((directory / "connection.yml").read_text(encoding="utf-8"))
    vcenter = connection["vcenters"]["lab"]
    assert (vcenter["address"], vcenter["port"], vcenter["password"]) == ("127.0.0.1", lab.port, "file:password")
    assert connection["hosts"]["gpu_hosts"] == {"cluster": "gpu-a", "names": ["esx01.lab.local", "esx02.lab.local"]}
    assert connection["vms"] == {"training": {"folder": "ai/training"}}
    assert len(connection["ssh"]["addresses"]) == 4
    assert lab.token not in (directory / "connection.yml").read_text(encoding="utf-8")
    process.stop(directory)
    assert {p.name for p in directory.iterdir()} <= {"lab.log", "lab.lock"}


def test_a_second_lab_with_another_scenario_is_refused(directory, tmp_path):
    other = tmp_path / "other.yml"
    other.write_text(BARE, encoding="utf-8")
    assert run("up", "--scenario", str(other)).exit_code == 0
    assert "already running" in run("up", "--scenario", str(other)).output
    assert isinstance(run("up").exception, UsageError)
    with pytest.raises(UsageError):
        process.start(directory)


def test_a_bad_scenario_starts_nothing(directory, tmp_path):
    bad = tmp_path / "bad.yml"
    bad.write_text("name: x\nhosts: [{nmae: y}]\n", encoding="utf-8")
    result = run("up", "--scenario", str(bad))
    assert isinstance(result.exception, InputError)
    assert process.find(directory) is None


def test_a_taken_port_is_a_clear_error(directory, tmp_path):
    lab = process.start(directory)
    with pytest.raises(process.LabFailed, match="did not start"):
        process.start(tmp_path / "second", settings=process.LabSettings(port=lab.port))


def test_labs_run_side_by_side(directory, tmp_path):
    first, second = process.start(directory), process.start(tmp_path / "second")
    assert first.port != second.port
    process.stop(tmp_path / "second")
    assert process.find(directory) == first


def test_a_killed_lab_is_seen_as_gone(directory):
    lab = process.start(directory)
    os.kill(lab.pid, signal.SIGKILL)
    os.waitpid(lab.pid, 0)
    assert process.find(directory) is None
    assert not (directory / "connection.yml").exists()
    assert not process.stop(directory)
    assert process.start(directory).pid != lab.pid


def test_somebody_elses_process_number_is_never_killed(directory):
    """After a crash the number in lab.json may belong to another program."""
    directory.mkdir()
    bystander = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        text = {
            "pid": bystander.pid,
            "url": "https://127.0.0.1:1/sdk",
            "port": 1,
            "control_port": 1,
            "token": "t",
            "scenario": "default",
            "scenario_file": "",
            "scenario_digest": "",
            "run_jobs": False,
            "hosts": 1,
            "vms": 1,
        }
        (directory / "lab.json").write_text(json.dumps(text), encoding="utf-8")
        assert not process.stop(directory)
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


RECORD = LabRecord(1, "https://127.0.0.1:1/sdk", 1, 1, "default", "", "", run_jobs=False, hosts=1, vms=1, token="t")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", ":1:1: it is not JSON"),
        (RECORD.as_text()[:40], ":3:10: it is not JSON"),
        ("[]", ":1:1: it should be an object"),
        ('{"pid": 1}', ":1:1: url: it is missing"),
        (RECORD.as_text().replace('"port": 1', '"port": "1"'), ":4:3: port: it should be of type int"),
        (RECORD.as_text().replace('"format": 1', '"format": 2'), ":13:3: format: another version of vsphere-ai"),
    ],
)
def test_a_damaged_record_is_named_and_not_taken_for_no_lab(directory, content, message):
    directory.mkdir()
    path = directory / "lab.json"
    path.write_text(content, encoding="utf-8")
    for look in (process.find, process.stop):
        with pytest.raises(process.LabFailed) as damaged:
            look(directory)
        assert damaged.value.message.startswith(f"{path}{message}")
        assert str(directory) in damaged.value.remedy
    assert path.read_text("utf-8") == content
    path.unlink()


def test_a_record_of_an_earlier_version_is_read(directory):
    directory.mkdir()
    older = {key: value for key, value in json.loads(RECORD.as_text()).items() if key != "format"}
    (directory / "lab.json").write_text(json.dumps(older), encoding="utf-8")
    assert read_record(directory) == RECORD
    (directory / "lab.json").unlink()


def test_sigterm_ends_the_process_cleanly(directory):
    lab = process.start(directory)
    os.kill(lab.pid, signal.SIGTERM)
    _, status = os.waitpid(lab.pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert not (directory / "lab.json").exists()


def test_a_lab_ends_with_the_process_it_was_tied_to(directory):
    owner = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    lab = process.start(directory, exit_with=owner.pid)
    owner.kill()
    owner.wait()
    _, status = os.waitpid(lab.pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert process.find(directory) is None


def test_folders_whose_names_an_inventory_does_not_take_are_groups_too(directory, tmp_path):
    scenario = tmp_path / "folders.yml"
    folders = ("AI VMs", "all", "ai/training", "web/training", "2nd", "Ümläute")
    vms = ", ".join(f"{{name: vm-{n}, host: esx1, folder: '{folder}'}}" for n, folder in enumerate(folders))
    scenario.write_text(f"{BARE}vms: [{vms}]\n", encoding="utf-8")
    process.start(directory, scenario)
    found = load_inventory(directory / "connection.yml").vms
    assert {name: group.selector.folder[0] for name, group in found.items()} == {
        "AI-VMs": "AI VMs",
        "vms-all": "all",
        "training": "ai/training",
        "web-training": "web/training",
        "vms-2nd": "2nd",
        "ml-ute": "Ümläute",
    }
