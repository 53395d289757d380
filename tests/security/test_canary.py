"""T-52: passwords that are easy to find, and a search for them in everything a run leaves behind.

The search has its own encoders; a leak that is planted on purpose has to be found by it.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import re
import secrets
import signal
import subprocess
import sys
import threading
import time
import urllib.parse
from pathlib import Path
from xml.sax import saxutils

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat, PublicFormat
from support import prefork
from support.gates import LONG, until
from support.places import PLAYBOOKS

pytestmark = pytest.mark.lab
HERE = Path(__file__).parent
LETTERS = "ABCDEFGHJKLMNPQRSTUVWXYZabcdefghjkmnpqrstuvwxyz23456789"
NASTY = "<&\"'%/\\`+ü"
ENCODERS = {
    "raw": lambda s: s,
    "base64": lambda s: base64.b64encode(s.encode()).decode().rstrip("="),
    "base64url": lambda s: base64.urlsafe_b64encode(s.encode()).decode().rstrip("="),
    "url": lambda s: urllib.parse.quote(s, safe=""),
    "xml": saxutils.escape,
    "json": lambda s: json.dumps(s)[1:-1],
    "repr": lambda s: repr(s)[1:-1],
    "hex": lambda s: s.encode().hex(),
}


def canary():
    """24 random characters, every one that some encoding changes among them."""
    chosen = [*NASTY, *(secrets.choice(LETTERS) for _ in range(24 - len(NASTY)))]
    secrets.SystemRandom().shuffle(chosen)
    return "".join(chosen)


def hits(canaries, texts):
    """Where (name of the text) which encoding of which canary is found."""
    return [
        (where, encoding, number)
        for where, content in texts.items()
        for number, value in enumerate(canaries)
        for encoding, encode in ENCODERS.items()
        if encode(value).encode() in content
    ]


class Case:
    """A lab with the canaries as passwords, a folder of its own, and everything that was ever printed."""

    def __init__(self, lab, folder, canaries):
        self.lab, self.folder, self.canaries = lab, folder, canaries
        self.state = folder / "state"
        self.texts = {}
        self.cmdlines = set()
        self.inventory()

    def inventory(self, name="inventory.yml", vcenter="env:VC", ssh="file:secrets/ssh"):
        (self.folder / "secrets").mkdir(mode=0o700, exist_ok=True)
        with open(self.folder / "secrets" / "ssh", "w", opener=lambda p, f: os.open(p, f, 0o600)) as file:
            file.write(self.canaries[1])
        document = json.loads(json.dumps(_connection(self.lab)))
        document["vcenters"]["lab"] |= {"password": vcenter, "tls": {"ca_file": str(self.lab.directory / "ca.pem")}}
        document["ssh"] |= {"password": ssh, "known_hosts": str(self.lab.directory / "known_hosts")}
        (self.folder / name).write_text(json.dumps(document), encoding="utf-8")
        return self.folder / name

    def with_key(self, name, passphrase):
        """An inventory that reaches hosts with a key that is locked."""
        for what, value in (("passphrase", self.canaries[3]), ("no passphrase", self.canaries[2])):
            with open(self.folder / "secrets" / what, "w", opener=lambda p, f: os.open(p, f, 0o600)) as file:
                file.write(value)
        document = json.loads((self.folder / "inventory.yml").read_text(encoding="utf-8"))
        del document["ssh"]["password"]
        document["ssh"] |= {"key_file": str(self.lab.directory / "key"), "key_passphrase": f"file:secrets/{passphrase}"}
        (self.folder / name).write_text(json.dumps(document), encoding="utf-8")

    def run(self, what, *arguments, inventory="inventory.yml", code=None, env=None):
        command = ["-c", code] if code else ["-m", "vsphere_ai"]
        argv = [sys.executable, *command, *map(str, arguments), *(["-i", inventory] if inventory else [])]
        environment = self.environment(env)
        # what is patched has to be patched before it is imported
        start = subprocess if code or arguments[0] == "apply" else prefork
        with self.watching_processes():
            done = start.run(
                argv, cwd=self.folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=100
            )
        self.texts[f"stdout of {what}"], self.texts[f"stderr of {what}"] = done.stdout, done.stderr
        return done

    def environment(self, env=None):
        return {
            **os.environ,
            "VC": self.canaries[0],
            "WRONG": self.canaries[2],
            "VSPHERE_AI_STATE_DIR": str(self.state),
            "VSPHERE_AI_DEBUG": "1",
            "PYTHONIOENCODING": "utf-8",
            **(env or {}),
        }

    def ended(self, what, number, at):
        """Apply, and send a signal when this is printed; return the exit status."""
        argv = [sys.executable, "-m", "vsphere_ai", "apply", PLAYBOOKS / "ai-ready-cluster.yml", "--yes", "-v"]
        with self.watching_processes():
            process = subprocess.Popen(
                [*map(str, argv), "-i", "inventory.yml"],
                cwd=self.folder,
                env={**self.environment(), "PYTHONUNBUFFERED": "1"},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            )
            seen = []
            for line in process.stdout:
                seen.append(line)
                if at in line.decode() and process.poll() is None:
                    # what a journal holds in the middle of a run, its write-ahead log included
                    self.texts |= {f"{what}: {p.name}": p.read_bytes() for p in self.state.rglob("*.db*")}
                    process.send_signal(number)
                    at = "\0"
            code = process.wait(LONG)
        self.texts[f"output of {what}"] = b"".join(seen)
        return code

    @contextlib.contextmanager
    def watching_processes(self):
        over = threading.Event()

        def watch():
            while not over.wait(0.05):
                for path in Path("/proc").glob("[0-9]*/cmdline"):
                    with contextlib.suppress(OSError):
                        self.cmdlines.add(path.read_bytes().replace(b"\0", b" "))

        thread = threading.Thread(target=watch)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def everything(self):
        """All that was printed, every file below the folder but the secrets' own, and every command line seen."""
        files = {
            str(p.relative_to(self.folder)): p.read_bytes()
            for p in self.folder.rglob("*")
            if p.is_file() and "secrets" not in p.relative_to(self.folder).parts
        }
        return {**self.texts, **files, "/proc/*/cmdline": b"\n".join(sorted(self.cmdlines))}


def _connection(lab):
    import yaml

    return yaml.safe_load((lab.directory / "connection.yml").read_text(encoding="utf-8"))


@contextlib.contextmanager
def lab_with(folder, canaries, quick_scenario):
    """A lab whose passwords are these: of vCenter, of the hosts; the last is that of the key to the hosts."""
    from vsphere_ai.lab.front import process

    key = Ed25519PrivateKey.generate()
    locked = BestAvailableEncryption(canaries[-1].encode())
    (folder / "key").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, locked))
    (folder / "key").chmod(0o600)
    (folder / "key.pub").write_bytes(key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH))
    (folder / "canaries").write_text("\n".join(canaries[:2]), encoding="utf-8")
    argv = [sys.executable, str(HERE / "canary_lab.py"), str(folder), "--scenario", str(quick_scenario)]
    running = subprocess.Popen([*argv, "--exit-with", str(os.getpid())], stdin=subprocess.DEVNULL)
    end = time.monotonic() + LONG
    while not (folder / "lab.json").exists():
        assert running.poll() is None, "the lab did not start"
        assert time.monotonic() < end
        time.sleep(0.05)
    try:
        yield process.find(folder), canaries
    finally:
        running.terminate()
        running.wait(LONG)


@pytest.fixture(scope="module")
def canary_lab(tmp_path_factory, quick_scenario):
    canaries = [canary() for _ in range(4)]
    with lab_with(tmp_path_factory.mktemp("canary-lab"), canaries, quick_scenario) as found:
        yield found


@pytest.fixture
def case(canary_lab, tmp_path):
    lab, canaries = canary_lab
    lab.post("/lab/reset")
    return Case(lab, tmp_path, canaries)


def test_a_run_leaves_no_password_anywhere(case):
    playbook = PLAYBOOKS / "ai-ready-cluster.yml"
    assert case.run("plan", "plan", playbook, "--to", "plan.json").returncode == 0, case.texts
    for command in (["plan", playbook], ["check"], ["verify", playbook], ["capacity"], ["doctor"]):
        case.run(f"{command[0]} json", *command, "-o", "json")
        case.run(f"{command[0]} text", *command)
    case.run("show", "show")
    case.run("permissions", "doctor", "--permissions", playbook)
    done = case.run("apply", "apply", "plan.json")
    assert done.returncode == 0, done.stderr.decode()
    case.run("trust", "trust", "host", "gpu_hosts")
    assert (case.folder / "plan.json").is_file()
    assert any(b"vsphere_ai apply" in c for c in case.cmdlines), "nobody watched"
    assert hits(case.canaries, case.everything()) == []


def test_a_run_leaves_no_passphrase_of_a_key_anywhere(case):
    case.with_key("key.yml", "passphrase")
    case.with_key("wrong-key.yml", "no passphrase")
    playbook = PLAYBOOKS / "mig-precreate.yml"
    wrong = case.run("wrong passphrase", "apply", playbook, "--yes", inventory="wrong-key.yml")
    assert wrong.returncode == 4, wrong.stdout.decode() + wrong.stderr.decode()
    assert b"Check file and passphrase" in wrong.stdout + wrong.stderr
    case.run("doctor", "doctor", inventory="key.yml")
    done = case.run("apply", "apply", playbook, "--yes", inventory="key.yml")
    assert done.returncode == 0, done.stdout.decode() + done.stderr.decode()
    case.lab.post("/lab/reset")
    spelt = CRASH.replace("self.endpoint.password", "self.passphrase").replace(
        "session.SoapSession._login", "login_.read_key"
    )
    spelt = spelt.replace(
        "from vsphere_ai.connect.soap import session", "from vsphere_ai.connect.secure_shell import ssh_login as login_"
    )
    spelt = spelt.replace("{sabotage}", "")
    crash = case.run("crash", "plan", playbook, inventory="key.yml", code=spelt)
    assert b"could not send" in crash.stdout, crash.stdout.decode() + crash.stderr.decode()
    assert hits(case.canaries, case.everything()) == []


def test_failures_leave_no_password_anywhere(case):
    playbook = PLAYBOOKS / "mig-precreate.yml"
    case.inventory("wrong-vcenter.yml", vcenter="env:WRONG")
    case.inventory("wrong-ssh.yml", ssh="env:WRONG")
    case.inventory("cmd.yml", vcenter='cmd:sh -c \'printf %s "$WRONG"; printf %s "$WRONG" >&2; exit 1\'')
    case.inventory("literal.yml", vcenter=case.canaries[2])
    for inventory, code in (
        ("wrong-vcenter.yml", 4),
        ("wrong-ssh.yml", 4),
        ("cmd.yml", 4),
        ("literal.yml", 65),
    ):
        done = case.run(inventory, "plan", playbook, inventory=inventory)
        assert done.returncode == code, done.stdout.decode() + done.stderr.decode()
    (case.folder / "literal.yml").unlink()  # it holds one because it was put there
    assert hits(case.canaries, case.everything()) == []


def test_runs_that_are_stopped_and_killed_leave_no_password_anywhere(case):
    assert case.ended("Ctrl-C", signal.SIGINT, "enter maintenance mode") == 130, case.texts
    case.lab.post("/lab/reset")
    assert case.ended("kill", signal.SIGKILL, "enter maintenance mode — done") == -signal.SIGKILL
    case.run("plan after it", "plan", PLAYBOOKS / "ai-ready-cluster.yml")
    case.run("run", "list", "runs", inventory="")
    assert case.run("resume", "resume", inventory="").returncode == 0, case.texts
    assert any(name.endswith(".db-wal") for name in case.texts), "the write-ahead log was never seen"
    assert any(name.endswith(".db") for name in case.everything())
    assert hits(case.canaries, case.everything()) == []


ECHO = """
from vsphere_ai.model.facts import CommandOutput
from vsphere_ai.connect.secure_shell.esxi import EsxiSsh
real = EsxiSsh.run
def run(self, argv, deadline_s, *, changes=False):
    said = self.endpoint.password + ' ' + repr(self.endpoint.password)
    return CommandOutput(1, said, said) if changes else real(self, argv, deadline_s)
EsxiSsh.run = run
from vsphere_ai.cli.main import run as main
main()
"""


def test_a_step_that_fails_with_the_password_in_its_answer_shows_none(case):
    """A host that repeats what it was told: the answer goes into output, JSON and journal."""
    for form in ("text", "json"):
        done = case.run(form, "apply", PLAYBOOKS / "mig-precreate.yml", "--yes", "-o", form, code=ECHO)
        assert done.returncode == 1, done.stdout.decode() + done.stderr.decode()
        assert b"***" in done.stdout
        case.lab.post("/lab/reset")
    assert any(name.endswith(".db") for name in case.everything()), "no journal was kept"
    assert hits(case.canaries, case.everything()) == []


UNMASKED = """
from vsphere_ai.security import redaction
redaction.clean = redaction.foreign = str
from vsphere_ai.cli.main import run
run()
"""
SAID = r"(?m)^note: a password is a word or a number that output has anyway.*$"


def test_passwords_that_are_common_words_blank_nothing_but_answers(tmp_path_factory, tmp_path, quick_scenario):
    """Rule ids, verdicts, names and JSON stay what they are; what a host answers is masked; and it is said."""
    words = ["vmware", "passed", "wrong", "passphrase"]
    with lab_with(tmp_path_factory.mktemp("word-lab"), words, quick_scenario) as (lab, canaries):
        case = Case(lab, tmp_path, canaries)
        playbook = PLAYBOOKS / "mig-precreate.yml"
        for command in (
            ["check"],
            ["check", "-o", "json"],
            ["plan", playbook],
            ["doctor"],
            ["capacity"],
            ["show"],
        ):
            masked = case.run("masked", *command)
            bare = case.run("bare", *command, code=UNMASKED)
            assert masked.returncode == bare.returncode, masked.stderr.decode()
            assert timeless(masked.stdout.decode()) == timeless(bare.stdout.decode())
            assert len(masked.stdout) > 100
            assert re.search(SAID, masked.stderr.decode())
        sabotage = ECHO.replace("repr(self.endpoint.password)", "'said passed\\n'")
        done = case.run("apply", "apply", playbook, "--yes", code=sabotage)
        assert done.returncode == 1
        assert b"*** said ***" in done.stdout, done.stdout.decode()
        assert b"passed" not in done.stdout + done.stderr
        case.lab.post("/lab/reset")
        crash = case.run("crash", "show", code=CRASH.replace("{sabotage}", ""))
        assert crash.returncode == 70
        assert b"could not send *** | " in crash.stderr
        assert b"vmware" not in re.sub(rb"/\S+|vmware[._]\w+", b"", crash.stderr)


def timeless(text):
    return re.sub(r"clock is [\d.]+ s (ahead of|behind)|\d{4}-\d\d-\d\dT[\d:.]+Z?", "", text)


CRASH = """
import sys, json, base64, urllib.parse
from xml.sax import saxutils
from vsphere_ai.connect.soap import session

def login(self):
    password = self.endpoint.password
    spellings = [password, base64.b64encode(password.encode()).decode(), base64.urlsafe_b64encode(password.encode()),
                 urllib.parse.quote(password, safe=""), saxutils.escape(password), json.dumps(password), repr(password),
                 password.encode().hex()]
    raise RuntimeError("could not send " + " | ".join(map(str, spellings)))

session.SoapSession._login = login
{sabotage}
from vsphere_ai.cli.main import run
run()
"""


def test_a_crash_with_the_password_in_its_traceback_shows_none(case):
    done = case.run("crash", "show", code=CRASH.replace("{sabotage}", ""))
    assert done.returncode == 70
    assert done.stderr.count(b"could not send ***") == 2, "the message and the traceback"
    assert b"Traceback" in done.stderr
    assert hits(case.canaries, case.everything()) == []


def test_without_the_redactor_that_crash_would_be_found(case):
    """The search finds what it looks for: the same run with the redactor taken out leaks in every encoding."""
    sabotage = """
from vsphere_ai.security import exceptions, redaction
redaction.clean = redaction.untrusted = exceptions.untrusted = str
"""
    case.run("crash", "show", code=CRASH.replace("{sabotage}", sabotage))
    found = hits(case.canaries, case.everything())
    assert {encoding for _, encoding, number in found if number == 0} == set(ENCODERS)


@pytest.mark.parametrize("encoding", ENCODERS)
def test_a_planted_leak_is_found(case, encoding):
    for number, value in enumerate(case.canaries):
        leak = case.folder / "deep" / "file.log"
        leak.parent.mkdir(exist_ok=True)
        leak.write_text(f"login with {ENCODERS[encoding](value)} failed", encoding="utf-8")
        assert ("deep/file.log", encoding, number) in hits(case.canaries, case.everything())


def test_a_password_on_a_command_line_is_found(case):
    with case.watching_processes():
        shown = subprocess.Popen([sys.executable, "-c", "input()", case.canaries[0]], stdin=subprocess.PIPE)
        until(lambda: hits(case.canaries, case.everything()))
        shown.communicate(b"\n")
    assert [h[0] for h in hits(case.canaries, case.everything())] == ["/proc/*/cmdline"]
