"""Programs that give addresses: run, cut off, failing, and the one for NetBox against a small NetBox on loopback."""

from __future__ import annotations

import json
import sys
import time

import pytest
from support.gates import busy
from support.netbox import TOKEN, served
from support.places import ROOT

from vsphere_ai.addresses.external import leased_in, released_in, request_document
from vsphere_ai.addresses.pool import AddressPool
from vsphere_ai.connect import address_program
from vsphere_ai.connect.address_program import ATTEMPTS, ProgramCall, ask
from vsphere_ai.errors import OutcomeUnknown, StepFailed
from vsphere_ai.security import redaction

NETBOX = ROOT / "docs" / "examples" / "netbox_addresses.py"


def script(tmp_path, text, **more):
    path = tmp_path / "program.py"
    path.write_text(text, encoding="utf-8")
    return ProgramCall((sys.executable, str(path)), tmp_path, **more)


def test_a_program_gets_the_request_and_answers_json(tmp_path):
    program = script(tmp_path, "import json, sys; json.dump({'got': json.load(sys.stdin)}, sys.stdout)")
    assert ask(program, {"keys": ["ä"]}) == {"got": {"keys": ["ä"]}}


def test_a_program_has_no_secrets_but_its_own(tmp_path, monkeypatch):
    monkeypatch.setenv("VSPHERE_AI_PASSWORD", "hidden-from-it")
    program = script(tmp_path, "import json, os; print(json.dumps(dict(os.environ)))", env={"TOKEN": "its own"})
    found = ask(program, {})
    assert found["TOKEN"] == "its own"
    assert "VSPHERE_AI_PASSWORD" not in found
    assert "its own" not in repr(program)


def test_a_program_runs_in_the_folder_of_the_inventory(tmp_path):
    assert ask(script(tmp_path, "import json, os; print(json.dumps(os.getcwd()))"), {}) == str(tmp_path)


@pytest.mark.parametrize(
    "text", ["print('no json')", "", "print('{')", "import sys; sys.exit(3)", "raise SystemExit('x')"]
)
def test_what_is_no_answer_is_refused(tmp_path, text):
    with pytest.raises(StepFailed) as refusal:
        ask(script(tmp_path, text), {})
    assert refusal.value.rule == "addresses.backend-failed"


def test_a_program_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(StepFailed):
        ask(ProgramCall((str(tmp_path / "none"),), tmp_path), {})


def test_an_answer_without_end_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(address_program, "LONGEST", 1000)
    with pytest.raises(StepFailed):
        ask(script(tmp_path, "print('1' * 2000)"), {})


def test_secrets_are_masked_in_what_a_program_says(tmp_path):
    redaction.register("its-own-token")
    with pytest.raises(StepFailed) as refusal:
        ask(script(tmp_path, "raise SystemExit('token its-own-token is wrong')"), {})
    assert "is wrong" in refusal.value.message
    assert "its-own-token" not in refusal.value.message


def test_a_program_that_does_not_end_is_asked_again_and_its_outcome_is_unknown(tmp_path):
    log = tmp_path / "log"
    text = f"import time; open({str(log)!r}, 'a').write('x'); time.sleep(60)"
    began = time.monotonic()
    with pytest.raises(OutcomeUnknown) as refusal:
        ask(script(tmp_path, text, timeout=0.7), {})
    assert refusal.value.rule == "addresses.backend-unknown"
    assert log.read_text("utf-8") == "x" * ATTEMPTS
    assert time.monotonic() - began < 30 * busy()


def test_a_program_that_answers_the_second_time_is_enough(tmp_path):
    log = tmp_path / "log"
    first = f"import os, time\nif not os.path.exists({str(log)!r}):\n    open({str(log)!r}, 'w')\n    time.sleep(60)\n"
    text = first + "print('{}')"
    assert ask(script(tmp_path, text, timeout=2), {}) == {}


# -- NetBox

POOL = AddressPool(subnet="10.0.0.0/29")


def asked(netbox, operation, *keys, pool=POOL, timeout=20.0, token=TOKEN):
    env = {"NETBOX_URL": netbox.url, "NETBOX_TOKEN": token}
    program = ProgramCall((sys.executable, str(NETBOX)), NETBOX.parent, env, timeout)
    return ask(program, request_document(operation, "mgmt", pool, keys))


def leased(netbox, *keys, **more):
    return {key: str(span) for key, span in leased_in(asked(netbox, "lease", *keys, **more), POOL, keys).items()}


def test_netbox_gives_the_same_address_for_the_same_key():
    with served("10.0.0.0/29") as netbox:
        first = leased(netbox, "a", "b")
        assert first == {"a": "10.0.0.1", "b": "10.0.0.2"}
        assert leased(netbox, "b", "a", "c") == {**first, "c": "10.0.0.3"}
        assert len(netbox.addresses) == 3


def test_netbox_keeps_a_released_address_for_its_vm():
    with served("10.0.0.0/29") as netbox:
        leased(netbox, "a", "b")
        for _ in range(2):  # again is no error
            released_in(asked(netbox, "release", "a"), ["a"])
        assert netbox.keys() == {"b": "10.0.0.2/29"}
        assert netbox.keys("deprecated") == {"a": "10.0.0.1/29"}
        assert leased(netbox, "c") == {"c": "10.0.0.3"}
        assert leased(netbox, "a") == {"a": "10.0.0.1"}
        assert netbox.keys("deprecated") == {}


def test_netbox_gives_all_or_none():
    with served("10.0.0.0/29") as netbox:
        leased(netbox, "a", "b", "c", "d")
        with pytest.raises(ValueError, match="409"):
            leased(netbox, "a", "e", "f", "g")
        assert sorted(netbox.keys()) == ["a", "b", "c", "d"]


def test_an_answer_of_netbox_that_is_lost_gives_no_second_address():
    with served("10.0.0.0/29") as netbox:
        netbox.late.clear()  # the addresses are made, and the answer does not come
        assert leased(netbox, "a", "b", timeout=3.0) == {"a": "10.0.0.1", "b": "10.0.0.2"}
        assert [method for method, _ in netbox.requests].count("POST") == 1
        assert len(netbox.addresses) == 2


@pytest.mark.parametrize("prefixes", [(), ("10.9.0.0/29",)])
def test_a_prefix_that_netbox_does_not_have_is_named(prefixes):
    with served(*prefixes) as netbox, pytest.raises(ValueError, match="prefixes"):
        leased(netbox, "a")


def test_a_token_that_is_wrong_is_a_refusal():
    with served("10.0.0.0/29") as netbox, pytest.raises(ValueError, match="403"):
        leased(netbox, "a", token="wrong")


def test_the_program_speaks_json_to_a_person_too():
    with served("10.0.0.0/29") as netbox:
        assert json.dumps(asked(netbox, "lease", "a")) == '{"version": 1, "addresses": {"a": "10.0.0.1"}}'
