"""A start of the lab is waited for while it makes progress, and no longer; nothing is left of one that failed."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner
from filelock import FileLock

from vsphere_ai.cli.setup import lab
from vsphere_ai.lab.build import build
from vsphere_ai.lab.front import process, starting
from vsphere_ai.lab.front.starting import FILE, Patience, StartProgress, StartTimeout, StartWait
from vsphere_ai.lab.scenario_file import parse

PROGRAM = """#!{python}
import os, sys, time
from pathlib import Path
folder = Path(sys.argv[sys.argv.index("--directory") + 1])
(folder.parent / "pid").write_text(str(os.getpid()))
{does}
"""
STUCK = '(folder / "starting").write_text("building hosts and VMs, 7 of 9")\ntime.sleep(600)'
ENDLESS = 'for n in range(6000):\n    (folder / "starting").write_text(f"step {n}")\n    time.sleep(0.1)'


@pytest.fixture
def clock(monkeypatch):
    """Seconds that pass when the test says so."""
    seconds = [1000.0]
    monkeypatch.setattr(starting, "time", SimpleNamespace(monotonic=lambda: seconds[0]))

    def forward(by):
        seconds[0] += by

    return forward


@pytest.fixture
def directory(tmp_path, monkeypatch):
    monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(tmp_path / "lab"))
    return tmp_path / "lab"


@pytest.fixture
def stand_in(tmp_path, monkeypatch):
    """Let a program take the place of the lab's process."""

    def put(does):
        program = tmp_path / "python"
        program.write_text(PROGRAM.format(python=sys.executable, does=does))
        program.chmod(0o755)
        monkeypatch.setattr(process.sys, "executable", str(program))

    return put


def gone(folder: Path) -> bool:
    try:
        os.kill(int((folder / "pid").read_text()), 0)
    except ProcessLookupError:
        return True
    return False


def test_a_start_may_take_any_time_while_it_makes_progress(tmp_path, clock):
    texts = []
    wait = StartWait(tmp_path, Patience(silence=60, report=texts.append))
    for number in range(100):
        (tmp_path / FILE).write_text(f"building hosts and VMs, {number} of 100")
        clock(59)
        wait.check("the lab did not start")
        wait.check("the lab did not start")
    assert texts == [f"building hosts and VMs, {number} of 100" for number in range(100)]


def test_a_start_without_progress_is_given_up_and_the_error_says_where_it_was(tmp_path, clock):
    (tmp_path / FILE).write_text("building hosts and VMs, 7 of 9")
    wait = StartWait(tmp_path, Patience(silence=60))
    wait.check("the lab did not start")
    clock(59.9)
    wait.check("the lab did not start")
    clock(0.1)
    with pytest.raises(StartTimeout, match=r"no progress for 60 s; it was at: building hosts and VMs, 7 of 9"):
        wait.check("the lab did not start")


def test_a_limit_ends_a_start_that_makes_progress(tmp_path, clock):
    wait = StartWait(tmp_path, Patience(timeout=100))
    for number in range(2):
        (tmp_path / FILE).write_text(f"step {number}")
        clock(49)
        wait.check("the lab did not start")
    clock(2)
    with pytest.raises(StartTimeout, match=r"within 100 s; it was at: step 1") as caught:
        wait.check("the lab did not start")
    assert "--timeout" in caught.value.remedy


def test_objects_are_counted_but_not_each_of_them_is_written(clock):
    texts = []
    progress = StartProgress(texts.append)
    progress.stage("building hosts and VMs", 30_000)
    for _ in range(30_000):
        progress.step()
        clock(0.001)
    assert texts[0] == "building hosts and VMs, 0 of 30,000"
    assert 140 <= len(texts) <= 152
    assert len(set(texts)) == len(texts)


def test_a_farm_is_counted_host_by_host_and_vm_by_vm(clock, monkeypatch):
    monkeypatch.setattr(starting, "WRITE_SECONDS", 0)
    texts = []
    text = "name: x\nhosts: [{name: 'esx[1:2]'}]\nvms: [{name: 'vm[1:3]', host: esx1}]\n"
    build(parse(text, "s.yml"), "x", progress=StartProgress(texts.append)).close()
    counted = [text for text in texts if text.startswith("building")]
    assert counted == [f"building hosts and VMs, {number} of 5" for number in range(6)]


def test_a_real_start_tells_how_far_it_is_and_leaves_no_note_of_it(directory):
    directory.mkdir()
    (directory / "many.yml").write_text("name: m\nhosts: [{name: esx1}]\nvms: [{name: 'vm[0001:2000]', host: esx1}]\n")
    texts = []
    try:
        process.start(directory, directory / "many.yml", exit_with=os.getpid(), patience=Patience(report=texts.append))
        assert any(text.endswith(" of 2,001") for text in texts), texts
        assert not (directory / FILE).exists()
    finally:
        process.stop(directory)


def test_nothing_is_left_of_a_start_that_got_stuck(directory, stand_in, tmp_path, clock):
    stand_in(STUCK)
    with pytest.raises(StartTimeout, match="it was at: building hosts and VMs, 7 of 9"):
        process.start(directory, patience=Patience(silence=60, report=lambda _text: clock(60)))
    assert gone(tmp_path)
    assert {path.name for path in directory.iterdir()} == {"lab.log", "lab.lock"}


def test_up_gives_up_after_the_time_it_was_given(directory, stand_in, tmp_path, clock, monkeypatch):
    stand_in(ENDLESS)
    monkeypatch.setattr(lab, "doing", lambda _text: clock(1))
    result = CliRunner().invoke(lab.command, ["up", "--timeout", "3"])
    assert isinstance(result.exception, StartTimeout)
    assert "within 3 s; it was at: step" in result.exception.message
    assert gone(tmp_path)


def test_an_interrupted_start_leaves_no_process(directory, stand_in, tmp_path):
    stand_in(ENDLESS)

    def interrupt(_text):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        process.start(directory, patience=Patience(report=interrupt))
    assert gone(tmp_path)


def test_who_looks_for_a_lab_that_is_starting_takes_none_of_its_files(directory):
    directory.mkdir()
    (directory / "password").write_text("p")
    with FileLock(directory / process.LOCK):
        assert process.find(directory) is None
        assert (directory / "password").exists()
    assert process.find(directory) is None
    assert not (directory / "password").exists()


def test_another_start_in_the_same_place_is_waited_for_while_it_makes_progress(directory):
    directory.mkdir()
    (directory / FILE).write_text("building hosts and VMs, 7 of 9")
    with (
        FileLock(directory / process.LOCK),
        pytest.raises(StartTimeout, match=r"another command is starting a lab .*: no progress for 0\.5 s; it was at"),
    ):
        process.start(directory, patience=Patience(silence=0.5))


def test_a_lab_that_does_not_answer_is_not_taken_for_one_that_is_gone(directory, monkeypatch):
    running = process.start(directory, exit_with=os.getpid())
    os.kill(running.pid, signal.SIGSTOP)
    try:
        with monkeypatch.context() as patch:
            patch.setattr(process, "ALIVE_SECONDS", 0.5)
            with pytest.raises(process.LabFailed, match=r"did not answer within 0\.5 s") as caught:
                process.find(directory)
        assert f"kill {running.pid}" in caught.value.remedy
        assert (directory / "lab.json").exists()
    finally:
        os.kill(running.pid, signal.SIGCONT)
    assert process.find(directory) == running
    assert process.stop(directory)


def test_the_default_farm_passes_every_stage(tmp_path):
    from vsphere_ai.lab.front import main

    texts = []

    class Noted(StartProgress):
        def __init__(self, write):
            super().__init__(lambda text: (write(text), texts.append(text)))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(main, "StartProgress", Noted)
        made, server = main.start(tmp_path / "lab")
    server.shutdown()
    made.close()
    stages = list(dict.fromkeys(text.partition(",")[0] for text in texts))
    assert stages == [
        "reading the scenario",
        "building hosts and VMs",
        "completing the inventory",
        "starting SSH servers of hosts",
        "starting SSH servers of guests",
        "starting to serve",
    ]
