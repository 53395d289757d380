"""`vsphere-ai init`: what it asks and writes, that its first plan finds nothing to do, and that it replaces nothing."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import stat
import sys
import time
from pathlib import Path

import jsonschema
import pytest
from support.gates import LONG, until
from support.seeds import cases, chance

from tests.e2e.test_show_plans_empty import farm
from vsphere_ai.language.inventories.inventory import load_inventory
from vsphere_ai.language.yaml_files.document import load

pytestmark = pytest.mark.lab
FILES = ["playbook.yml", "vsphere-ai.yaml"]


@pytest.fixture
def here(lab, tmp_path, monkeypatch):
    """A new folder, beside a lab that runs."""
    folder = tmp_path / "project"
    folder.mkdir(mode=0o755)
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def connection(lab):
    """Options that answer everything about the vCenter of the lab."""
    (vcenter,) = load_inventory(lab.directory / "connection.yml").vcenters.values()
    return {
        "--vcenter": f"{vcenter.address}:{vcenter.port}",
        "--user": vcenter.username,
        "--password-from": vcenter.password,
        "--ca-file": vcenter.tls.ca_file,
    }


def secret_of(connection):
    return Path(connection["--password-from"].removeprefix("file:")).read_text("utf-8").strip()


def words(options):
    return [word for pair in options.items() for word in pair]


def plan(cli, *more):
    """Plan right after `init`, as it says: no option names the inventory."""
    from vsphere_ai.cli.main import main

    code = main(["plan", "playbook.yml", "--detailed-exitcode", "-o", "json", *more])
    return code, json.loads(cli.capsys.readouterr().out)


def test_the_first_plan_finds_nothing_to_do(cli, here):
    assert cli("init", "--lab") == 0, cli.err
    assert sorted(p.name for p in here.iterdir()) == sorted([*FILES, "schemas"])
    assert {stat.S_IMODE(p.stat().st_mode) for p in here.rglob("*") if p.is_file()} == {0o600}
    for name in FILES:
        data = load(here / name).data
        schema = re.match(r"# yaml-language-server: \$schema=(\S+)", (here / name).read_text("utf-8"))[1]
        jsonschema.validate(json.loads(json.dumps(data)), json.loads((here / schema).read_text("utf-8")))
    assert [line.split("  #")[0].strip() for line in cli.out.partition("Next:\n")[2].splitlines()] == [
        "vsphere-ai plan playbook.yml", "vsphere-ai doctor", "vsphere-ai check",
    ]  # fmt: skip
    code, document = plan(cli)
    assert (code, document["steps"], document["problems"]) == (0, [], [])
    assert document["world"]["found"] == "found in this folder"
    groups = load_inventory(here / "vsphere-ai.yaml").hosts
    assert {"gpu-a", "gpu_hosts"} <= set(groups)
    assert "\n  hosts: gpu_hosts\n" in (here / "playbook.yml").read_text("utf-8")


def test_a_document_says_what_was_written_and_what_comes_next(cli, lab, here):
    assert cli("init", "--lab", "--dry-run", "-o", "json") == 0, cli.err
    tried = json.loads(cli.out)
    assert {each["state"] for each in tried["files"]} == {"would-be-written"}
    assert (tried["named_inventory"], tried["next"]) == (None, [])
    assert cli("init", "--lab", "-o", "json") == 0, cli.err
    made = json.loads(cli.out)
    assert [each["path"] for each in made["files"]] == [each["path"] for each in tried["files"]]
    assert {each["state"] for each in made["files"]} == {"written"}
    farm = lab.get("/lab/farm")
    assert (made["hosts"], made["vms"]) == (len(farm["hosts"]), len(farm["vms"]))
    assert any(line.startswith("vsphere-ai plan playbook.yml") for line in made["next"])


def test_show_names_the_schema_of_a_project_and_no_other(cli, here):
    assert cli("init", "--lab") == 0, cli.err
    assert cli("show", "train-01") == 0
    assert cli.out.startswith("# yaml-language-server: $schema=schemas/playbook.schema.json\n")
    assert cli("show", "train-01", "--to", here / "schemas" / "vm.yml") == 0
    assert (
        (here / "schemas" / "vm.yml")
        .read_text("utf-8")
        .startswith("# yaml-language-server: $schema=playbook.schema.json\n")
    )
    (here / "below").mkdir()
    assert cli("show", "train-01", "--to", here / "below" / "vm.yml") == 0
    assert "$schema" not in (here / "below" / "vm.yml").read_text("utf-8")


@pytest.mark.parametrize("number", cases(2, 30))
def test_it_is_so_on_other_farms(cli, here, make_lab, monkeypatch, number):
    lab = make_lab(farm(chance("init", number), least=1))
    monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(lab.directory))
    assert cli("init", "--lab") == 0, cli.err
    code, document = plan(cli)
    assert (code, document["steps"], document["problems"]) == (0, [], []), (here / "playbook.yml").read_text("utf-8")


def test_options_answer_every_question(cli, here, connection):
    assert cli("init", *words(connection)) == 0, cli.err
    assert plan(cli)[0] == 0
    text = (here / "vsphere-ai.yaml").read_text("utf-8")
    assert secret_of(connection) not in text
    assert connection["--ca-file"] in text


def test_a_fingerprint_is_pinned(cli, here, connection):
    connection.pop("--ca-file")
    assert cli("init", *words(connection)) == 64
    assert "--fingerprint" in cli.err
    seen = re.search(r"SHA-256 +(\S+)", cli.out)[1]
    assert cli("init", *words(connection), "--fingerprint", seen.replace("A", "B").replace("1", "2")) == 4
    assert list(here.iterdir()) == []
    assert cli("init", *words(connection), "--fingerprint", seen) == 0, cli.err
    assert plan(cli)[0] == 0
    assert f'fingerprint: "{seen}"' in (here / "vsphere-ai.yaml").read_text("utf-8")


@pytest.mark.parametrize("left", ["--vcenter", "--user", "--password-from"])
def test_without_a_terminal_the_missing_option_is_named(cli, here, connection, left):
    del connection[left]
    assert cli("init", *words(connection)) == 64
    assert (cli.error, f" {left} is not given" in cli.err) == ("usage.no-terminal", True)
    assert list(here.iterdir()) == []


@pytest.mark.parametrize("name", FILES)
def test_no_file_is_replaced(cli, here, name):
    (here / name).write_text("mine", "utf-8")
    assert cli("init", "--lab") == 64
    assert cli.error == "usage.not-overwritten"
    assert {p.name: p.read_text("utf-8") for p in here.iterdir()} == {name: "mine"}
    assert cli("init", "other", "--lab") == 0, cli.err
    assert "cd other" in cli.out
    assert sorted(p.name for p in (here / "other").iterdir()) == sorted([*FILES, "schemas"])


def test_a_wrong_password_is_sent_once(cli, here, lab, connection, monkeypatch):
    monkeypatch.setenv("WRONG_PASSWORD", "not the password")
    before = logins(lab)
    assert cli("init", *words(connection | {"--password-from": "env:WRONG_PASSWORD"})) == 4
    assert (cli.error, logins(lab) - before) == ("login.refused", 1)
    assert list(here.iterdir()) == []


@pytest.mark.parametrize(
    ("option", "value", "code"),
    [
        ("--vcenter", "127.0.0.1:1", 5),
        ("--vcenter", "https://x", 64),
        ("--password-from", "secret-itself", 64),
        ("--password-from", "env:NOT_THERE_AT_ALL", 4),
        ("--ca-file", "/nowhere/ca.pem", 4),
    ],
)
def test_a_wrong_answer_is_named_and_nothing_is_written(cli, here, connection, option, value, code):
    assert cli("init", *words(connection | {option: value})) == code, cli.err
    assert "secret-itself" not in cli.out + cli.err
    assert list(here.iterdir()) == []


def test_an_account_that_sees_nothing_ends_it(cli, here, connection, monkeypatch):
    from vsphere_ai.app.project import init_project
    from vsphere_ai.model.facts import Estate

    real = init_project.shown
    monkeypatch.setattr(
        init_project, "shown", lambda *given: (lambda r: type(r)(Estate(r.estate.about, {}), {}, {}))(real(*given))
    )
    assert cli("init", *words(connection)) == 4
    assert cli.error == "account.sees-nothing"
    assert list(here.iterdir()) == []


def test_a_folder_where_others_may_write_needs_the_inventory_named(cli, here):
    here.chmod(0o777)
    assert cli("init", "--lab") == 0
    assert "plan playbook.yml -i vsphere-ai.yaml" in cli.out
    assert plan(cli, "-i", "vsphere-ai.yaml")[0] == 0


def logins(lab):
    seen = lab.get("/lab/farm")
    return seen["logins"] + seen["refused_logins"]


class Talk:
    """A command on a terminal of its own, to answer what it asks."""

    def __init__(self, lab, *arguments, **environment):
        self.seen = ""
        self.process, self.terminal = pty.fork()
        if not self.process:
            world = {**os.environ, "VSPHERE_AI_LAB_DIR": str(lab.directory), **environment}
            os.execve(sys.executable, [sys.executable, "-m", "vsphere_ai", *arguments], world)

    def until(self, words):
        """Read on until these words are there."""
        limit = time.monotonic() + LONG
        while words not in self.seen:
            assert time.monotonic() < limit, self.seen
            if select.select([self.terminal], [], [], 0.2)[0]:
                try:
                    piece = os.read(self.terminal, 65536)
                except OSError:  # Linux's way to say that the other end is closed
                    piece = b""
                assert piece, self.seen
                self.seen += piece.decode()

    def answer(self, question, text):
        self.until(question)
        self.seen = self.seen.partition(question)[2]
        os.write(self.terminal, text.encode())

    def interrupt(self):
        """Press Ctrl-C once it waits for input: Python does not see a signal between the prompt and the wait."""
        path, seen = Path(f"/proc/{self.process}/stat"), []

        def waits():
            seen.append(path.read_text().rpartition(") ")[2][0])
            return seen[-5:] == ["S"] * 5

        until(waits)
        os.write(self.terminal, b"\x03")

    def end(self):
        while True:
            try:
                self.seen += os.read(self.terminal, 65536).decode()
            except OSError:
                break
        os.close(self.terminal)
        return os.waitstatus_to_exitcode(os.waitpid(self.process, 0)[1])


def test_on_a_terminal_each_answer_is_checked_at_once(cli, here, lab, connection):
    secret = secret_of(connection)
    before = logins(lab)
    talk = Talk(lab, "init")
    talk.answer("vCenter (", "https://x\n")
    talk.answer("is not an address", "")
    talk.answer("vCenter (", f"{connection['--vcenter']}\n")
    talk.answer("Trust this certificate?", "yes\n")
    talk.answer("User name", f"{connection['--user']}\n")
    talk.answer("One of", "vault\n")
    talk.answer("none of these", "")
    talk.answer("One of", "\n")
    talk.answer("environment variable", "NO_SUCH_PASSWORD_HERE\n")
    talk.answer("Password of", "wrong password\n")
    talk.answer("User name", f"{connection['--user']}\n")
    talk.answer("Password of", f"{secret}\n")
    assert talk.end() == 0, talk.seen
    assert logins(lab) - before == 2
    assert "read -rs NO_SUCH_PASSWORD_HERE" in talk.seen
    text = (here / "vsphere-ai.yaml").read_text("utf-8")
    assert 'password: "env:NO_SUCH_PASSWORD_HERE"' in text
    assert secret not in talk.seen + text
    os.environ["NO_SUCH_PASSWORD_HERE"] = secret
    try:
        assert plan(cli)[0] == 0
    finally:
        del os.environ["NO_SUCH_PASSWORD_HERE"]


def test_there_is_no_third_attempt(here, lab, connection):
    before = logins(lab)
    options = {k: connection[k] for k in ("--vcenter", "--user", "--ca-file")}
    talk = Talk(lab, "init", *words(options), "--password-from", "prompt:")
    talk.answer("Password of", "wrong password\n")
    talk.answer("Password of", "wrong again\n")
    assert talk.end() == 4, talk.seen
    assert logins(lab) - before == 2
    assert list(here.iterdir()) == []


@pytest.mark.parametrize("question", ["vCenter (", "Trust this certificate?", "One of", "Password of"])
def test_ctrl_c_at_a_question_leaves_nothing(here, lab, connection, question):
    talk = Talk(lab, "init", NO_SUCH_PASSWORD_HERE="")
    for asked, text in (
        ("vCenter (", connection["--vcenter"]),
        ("Trust this certificate?", "yes"),
        ("User name", connection["--user"]),
        ("One of", "prompt"),
        ("Password of", ""),
    ):
        if asked == question:
            break
        talk.answer(asked, f"{text}\n")
    talk.until(question)
    talk.interrupt()
    assert talk.end() == 130, talk.seen
    assert list(here.iterdir()) == []


def test_the_lab_is_an_answer_too(cli, here, lab):
    talk = Talk(lab, "init")
    talk.answer("vCenter (", "lab\n")
    assert talk.end() == 0, talk.seen
    assert plan(cli)[0] == 0


def test_a_distrusted_certificate_ends_it(here, lab, connection):
    before = logins(lab)
    talk = Talk(lab, "init", "--vcenter", connection["--vcenter"])
    talk.answer("Trust this certificate?", "y\n")
    assert talk.end() == 4, talk.seen
    assert (logins(lab), list(here.iterdir())) == (before, [])
