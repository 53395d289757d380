"""What reaches a terminal, a pipe and an old encoding; and that silence is broken."""

from __future__ import annotations

import io
import itertools
import json
import os
import pty
import re
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import pytest
from support import prefork
from support.gates import LONG, struck, until
from support.places import INVENTORY, PLAYBOOKS

from vsphere_ai.cli.console import options, streams
from vsphere_ai.language.inventories.patterns import expand
from vsphere_ai.security.asking import is_asking

MISSION, SMALL = PLAYBOOKS / "ai-ready-cluster.yml", PLAYBOOKS / "pvrdma-only.yml"
READING = [["plan", MISSION], ["check"], ["show"], ["capacity"], ["verify", MISSION]]
SCALE = 10
COLOUR = re.compile(rb"\x1b\[[0-9;]*m")


def run(lab, *arguments, **environment):
    """Run a command with its output in pipes; return what it wrote, as bytes."""
    argv = [sys.executable, "-m", "vsphere_ai", arguments[0], "-i", INVENTORY, *arguments[1:]]
    environment = {**os.environ, "VSPHERE_AI_LAB_DIR": str(lab.directory), **environment}
    start = subprocess if environment.get("LC_ALL") == "C" else prefork  # a copy has the locale it was made with
    done = start.run([str(a) for a in argv], env=environment, capture_output=True, timeout=LONG)
    assert done.returncode in (0, 1, 2), done.stderr.decode("utf-8", "replace")
    assert b"Traceback" not in done.stderr
    return done.stdout, done.stderr


def on_terminal(lab, *arguments, until=b"", **environment):
    """Run a command on a terminal; return what it wrote there, as bytes. Faults last until it has written something."""
    ours, theirs = pty.openpty()
    argv = [sys.executable, "-m", "vsphere_ai", arguments[0], "-i", INVENTORY, *arguments[1:]]
    environment = {**os.environ, "VSPHERE_AI_LAB_DIR": str(lab.directory), **environment}
    process = prefork.Popen(argv, env=environment, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    written = bytearray()
    while True:
        try:
            piece = os.read(ours, 65536)
        except OSError:  # Linux's way to say that the other end is closed
            break
        if not piece:
            break
        written += piece
        if until and until in written:
            lab.clear_faults()
            until = b""
    os.close(ours)
    assert process.wait(LONG) in (0, 1), written.decode("utf-8", "replace")
    return bytes(written)


@pytest.mark.lab
@pytest.mark.parametrize("columns", ["40", "80", "200"])
def test_no_escape_sequence_and_no_name_lost_in_a_pipe(lab, columns):
    for command in READING:
        out, err = run(lab, *command, COLUMNS=columns, TERM="xterm-256color")
        assert b"\x1b" not in out + err, command
    text, _ = run(lab, "plan", MISSION, COLUMNS=columns)
    for name in (b"esx01.lab.local", b"esx02.lab.local", b"grid_a100-3-20c", b"dvpg-rdma"):
        assert name in text
    ranges = {term for term in re.findall(r"[\w.-]+\[\d+:\d+\]", text.decode()) for term in expand(term)}
    assert {"train-01", "train-02", "train-03", "train-04"} <= ranges


@pytest.mark.lab
@pytest.mark.parametrize("encoding", ["cp1252", "ascii", "latin-1"])
def test_an_encoding_that_lacks_signs_stops_nothing(lab, encoding):
    environment = {"PYTHONIOENCODING": encoding}
    if encoding == "ascii":
        environment |= {"PYTHONUTF8": "0", "LC_ALL": "C"}
    for command in READING:
        out, _ = run(lab, *command, **environment)
        out.decode(encoding)
    text = run(lab, "plan", MISSION, **environment)[0].decode(encoding)
    assert "shared -> shared_direct" in text
    plain = json.loads(run(lab, "plan", MISSION, "-o", "json")[0])
    assert json.loads(run(lab, "plan", MISSION, "-o", "json", **environment)[0].decode(encoding)) == plain
    lines = run(lab, "apply", SMALL, "--yes", **environment)[0].decode(encoding).splitlines()
    assert any("verified" in line for line in lines)


@pytest.mark.lab
def test_a_dumb_terminal_gets_plain_lines(lab):
    written = on_terminal(lab, "apply", SMALL, "--yes", TERM="dumb", COLUMNS="80")
    assert b"\x1b" not in written
    assert b"\r\x1b" not in written
    assert b"power on" in written
    assert b"verified" in written


@pytest.mark.lab
@pytest.mark.parametrize("columns", ["40", "200"])
def test_a_terminal_without_colour_still_gets_a_live_view(lab, columns):
    plain = on_terminal(lab, "plan", SMALL, TERM="xterm-256color", NO_COLOR="1", COLUMNS=columns)
    assert not COLOUR.search(plain)
    coloured = on_terminal(lab, "plan", SMALL, TERM="xterm-256color", COLUMNS=columns)
    assert COLOUR.search(coloured)
    lab.set_faults("- {on: PowerOnVM_Task, nth: 1, do: hold}\n")  # nothing is drawn of a run that is done at once
    shown = b"Ctrl-C finishes"
    live = on_terminal(lab, "apply", SMALL, "--yes", TERM="xterm-256color", NO_COLOR="1", COLUMNS=columns, until=shown)
    assert shown in live
    assert not re.search(rb"\x1b\[[0-9;]*3[0-7]m", live), "a colour"
    ranges = re.findall(r"[\w.-]+\[\d+:\d+\]|[\w.-]+", live.decode())
    assert {"train-01", "train-02", "train-03", "esx03.lab.local"} <= {name for r in ranges for name in expand(r)}


# -- spelling


@pytest.mark.parametrize(
    ("encoding", "text", "written"),
    [
        ("cp1252", "a → b · c… ×2 é", "a -> b · c… ×2 é"),
        ("ascii", "a → b · c… ×2 é", "a -> b - c... x2 ?"),
        ("ascii", '{"name": "é→😀"}', '{"name": "\\u00e9\\u2192\\ud83d\\ude00"}'),
        ("utf-8", "→ é 😀", "→ é 😀"),
        ("utf-8", "\udc80", "?"),
    ],
)
def test_what_an_encoding_lacks_is_spelt_otherwise(encoding, text, written):
    raw = io.BytesIO()
    stream = streams._Stream(io.TextIOWrapper(raw, encoding=encoding, write_through=True))
    stream.write(text)
    assert raw.getvalue().decode(encoding) == written


# -- signs of life (T-74)


class Steps:
    """A clock, and what waits for it: time passes in `let_pass` only, and whoever waits is served at each step."""

    def __init__(self):
        self.now, self.over = 1000.0, False
        self.waiting, self.go_on = threading.Semaphore(0), threading.Semaphore(0)

    def monotonic(self):
        return self.now

    def let_pass(self, seconds):
        end = self.now + seconds
        while self.now < end:
            assert self.waiting.acquire(timeout=LONG)
            self.go_on.release()
        assert self.waiting.acquire(timeout=LONG)  # it has done what it does at the last step
        self.waiting.release()

    def wait(self, seconds):
        self.waiting.release()
        assert self.go_on.acquire(timeout=LONG)
        self.now += 0 if self.over else seconds
        return self.over

    def set(self):
        self.over = True
        self.go_on.release()


@pytest.fixture
def steps(monkeypatch):
    steps = Steps()
    monkeypatch.setattr(streams, "time", steps)
    monkeypatch.setattr(streams, "threading", SimpleNamespace(
        Event=lambda: steps, Thread=threading.Thread, main_thread=threading.main_thread))  # fmt: skip
    return steps


class Heard(io.StringIO):
    """A stream that knows when something was written to it."""

    def __init__(self, clock):
        super().__init__()
        self.times, self.clock = [], clock

    def write(self, text):
        self.times.append(self.clock.monotonic())
        return super().write(text)


def silences(heard, began, ended):
    moments = sorted([began, *(t for h in heard for t in h.times), ended])
    return [b - a for a, b in itertools.pairwise(moments)]


def listen(monkeypatch, clock, work):
    """Run something with streams of its own; return both and the longest silence in seconds."""
    out, err = Heard(clock), Heard(clock)
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    began = clock.monotonic()
    with streams.guarded():
        work(out, err)
        ended = clock.monotonic()
    return out.getvalue(), err.getvalue(), max(silences((out, err), began, ended))


def test_a_long_silence_is_broken_and_says_what_goes_on(monkeypatch, steps):
    def work(*_):
        streams.doing("reading hosts")
        steps.let_pass(32)

    out, err, longest = listen(monkeypatch, steps, work)
    assert longest <= 10
    assert out == ""
    assert re.fullmatch(r"(still working, \d+ s: reading hosts\n){3,}", err)


def test_who_writes_is_not_interrupted(monkeypatch, steps):
    def work(*_):
        for _ in range(8):
            print("a line")
            steps.let_pass(6)

    _, err, _ = listen(monkeypatch, steps, work)
    assert err == ""


def test_who_is_asked_is_not_hurried(monkeypatch, steps):
    def answer():
        until(is_asking)
        steps.let_pass(30)
        os.write(writer, b"yes\n")

    reader, writer = os.pipe()
    monkeypatch.setattr(sys, "stdin", os.fdopen(reader))
    other = threading.Thread(target=answer)
    other.start()
    _, err, _ = listen(monkeypatch, steps, lambda *_: options.says_yes("Apply it?"))
    other.join()
    os.close(writer)
    assert "still working" not in err


@pytest.fixture
def fast(monkeypatch):
    """Signs of life ten times as often; return the seconds between them at most, on an idle machine."""
    monkeypatch.setattr(streams, "SILENCE", streams.SILENCE / SCALE)
    return 10 / SCALE


@pytest.mark.lab
@pytest.mark.parametrize(
    ("rule", "arguments"),
    [
        ({"on": "RetrievePropertiesEx", "nth": 1, "do": "hold"}, ["plan", str(SMALL)]),
        ({"on": "connect", "nth": 1, "do": "hold"}, ["check"]),
        ({"on": "any", "nth": 12, "do": {"restart": "4s"}}, ["verify", str(SMALL)]),
        ({"on": "PowerOnVM_Task", "nth": 1, "do": "hold"}, ["apply", str(SMALL), "--yes"]),
        ({"on": "Logout", "nth": 1, "do": "hold"}, ["show"]),
        (
            {"on": "PowerOnVM_Task", "nth": 1, "do": "hold"},
            ["apply", str(SMALL), "--yes", "-o", "json"],
        ),
        ({"on": "connect", "nth": 1, "do": "hold"}, ["plan", str(SMALL), "-o", "json"]),
    ],
    ids=lambda v: f"{v[0]}-{v[-1]}" if isinstance(v, list) else v["on"],
)
def test_no_command_is_silent_for_long(lab, monkeypatch, fast, rule, arguments):
    from vsphere_ai.cli.main import main
    from vsphere_ai.execution import runner

    monkeypatch.setattr(runner, "HEARTBEAT", runner.HEARTBEAT / SCALE)
    lab.set_faults([rule])
    codes, heard = [], []

    def signs(out, err):
        """The moments at which something was heard after a while."""
        times = sorted([*out.times, *err.times])
        return [b for a, b in itertools.pairwise(times) if b - a > fast / 2]

    def release(out, err):
        struck(lab, 1)
        before = len(signs(out, err))
        try:
            until(lambda: len(signs(out, err)) > before + 1, why="it was silent")
            heard.append("twice")
        finally:
            if rule["do"] == "hold":
                lab.clear_faults()

    def work(out, err):
        other = threading.Thread(target=release, args=(out, err))
        other.start()
        codes.append(main([arguments[0], "-i", str(INVENTORY), *arguments[1:]]))
        other.join()

    listen(monkeypatch, time, work)
    assert codes[0] in (0, 1, 2)
    assert heard == ["twice"]


def test_an_error_fits_the_terminal_and_is_one_line_for_programs(monkeypatch):
    monkeypatch.setattr(streams, "is_screen", lambda _: True)
    monkeypatch.setenv("COLUMNS", "60")
    text = "refused: train-02 on esx01.lab.local, 0000:3b:00.0: " + "the GPU is used by another process " * 3 + "/a" * 9
    lines = streams.fitted(text, "  ").splitlines()
    assert max(len(line) for line in lines[:-1]) <= 60
    assert all(line.startswith("  ") for line in lines[1:])
    assert " ".join(line.strip() for line in lines).split() == text.split()
    monkeypatch.setattr(streams, "is_screen", lambda _: False)
    assert streams.fitted(text, "  ") == text
