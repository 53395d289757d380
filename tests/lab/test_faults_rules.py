"""The fault language: what a file may say, what is wrong where, and which call a rule fires at."""

import re
from pathlib import Path

import pytest

from vsphere_ai.errors import InputError
from vsphere_ai.lab import managed
from vsphere_ai.lab.faults.engine import FaultEngine
from vsphere_ai.lab.faults.rule_file import FIELDS, load, parse
from vsphere_ai.lab.faults.rules import NOT_METHODS, WORDS, FaultEvent
from vsphere_ai.lab.invariants import INVARIANTS

BAD_PATTERN = "not a regular expression: missing ), unterminated subpattern at position 0"


def wrong(text):
    with pytest.raises(InputError) as caught:
        parse(text, "f.yml")
    return [(str(d.mark), d.message) for d in caught.value.diagnostics]


def test_the_page_names_every_fault_and_invariant():
    page = (Path(__file__).parents[2] / "docs" / "faults.md").read_text(encoding="utf-8")
    for word in (*WORDS, *FIELDS, *NOT_METHODS, *INVARIANTS):
        assert re.search(rf"`[^`]*\b{re.escape(word)}\b[^`]*`", page), word


def rule(text):
    (found,) = parse(text, "f.yml")
    return found


def call(method="PowerOnVM_Task", name="vm1", host="esx1"):
    return FaultEvent("soap", method, (name,), (host,))


@pytest.mark.parametrize(
    "text",
    [
        "{on: ReconfigVM_Task, target: train-*, nth: 2, do: lost-reply}",
        '{on: "ssh: nvidia-smi mig -cgi", when: mid-body, do: {delay: 500ms}}',
        "{on: any, probability: 0.1, seed: 3, do: {restart: 5s, starting: 2s}}",
        "{on: RebootHost_Task, do: {gpu-missing: 0000:3b:00.0}}",
        "{on: any-mutation, every: 3, times: 2, do: 503}",
        "{on: connect, nth: 3, do: hang}",
        "{on: PowerOnVM_Task, do: {task-stuck: queued}}",
        "{on: ShutdownGuest, when: after, do: hold}",
        "{on: ShutdownGuest, nth: 1, do: guest-stuck}",
        "{on: PowerOnVM_Task, target: trn-*, do: {guest-address: 10.0.0.9}}",
        "{on: any, do: {power-loss: esx02*}}",
    ],
)
def test_a_rule_is_shown_as_it_can_be_written(text):
    assert str(rule(text)) == text
    assert rule(str(rule(text))) == rule(text)


def test_values_and_defaults():
    delay = rule("{on: any, do: {delay: 1.5s}}")
    assert (delay.do.seconds, delay.when, delay.times, delay.probability) == (1.5, "before", 0, 1.0)
    assert rule("{on: any, nth: 4, do: drop}").times == 1
    assert rule("{on: any, do: lost-reply}").when == "after"
    assert rule("{on: any, do: {restart: 2m, starting: 3}}").do.starting == 3
    assert rule("{on: any, do: {task-stuck: queued}}").do.number == -1
    assert rule("{on: RebootHost_Task, do: {gpu-missing: '0000:3B:00.0'}}").do.value == "0000:3b:00.0"
    assert rule("on: {ssh: reboot}\ndo: drop").on == "ssh: reboot"
    assert parse("[]", "f") == ()
    assert [str(r) for r in parse("- &a {on: any, do: drop}\n- *a", "f")] == ["{on: any, do: drop}"] * 2


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", [("f.yml:1:1", "expected a list of rules")]),
        ("- {on: ReconfigVM, do: drop}", [("f.yml:1:8", "the lab has no method 'ReconfigVM'")]),
        ("- {on: RebootGuest, do: guest-stuck}", [("f.yml:1:8", "RebootGuest shuts down no guest")]),
        ("- {on: RebootGuest, do: gateway-silent}", [("f.yml:1:8", "RebootGuest starts no guest")]),
        ("- {on: any, do: {guest-address: 10.0.0.999}}", [("f.yml:1:33", "'10.0.0.999' is not an IP address")]),
        ("- {on: any, do: dorp}", [("f.yml:1:17", "unknown fault 'dorp'")]),
        ("- {on: any}\n- {do: drop}", [("f.yml:1:3", "a rule needs 'do'"), ("f.yml:2:3", "a rule needs 'on'")]),
        ("- {on: any, do: drop, on: any}", [("f.yml:1:23", "the key 'on' is given twice")]),
        ("- {on: any, do: drop, hwen: before}", [("f.yml:1:23", "unknown field 'hwen' of a rule")]),
        ("- {on: any, do: {delay: 2h}}", [("f.yml:1:25", "'2h' is not a duration of at most an hour")]),
        ("- {on: any, do: delay}", [("f.yml:1:17", "'delay' needs a value")]),
        ("- {on: any, do: {drop: 1}}", [("f.yml:1:18", "'drop' takes no value")]),
        ("- {on: any, do: {delay: 1s, starting: 1s}}", [("f.yml:1:29", "'delay' has no 'starting'")]),
        ("- {on: any, do: {fault: Nope}}", [("f.yml:1:25", "the API has no fault type 'Nope'")]),
        ("- {on: any, do: {fault: VirtualMachine}}", [("f.yml:1:25", "the API has no fault type 'VirtualMachine'")]),
        ("- {on: any, do: {gpu-missing: 3b}}", [("f.yml:1:31", "'3b' is not a PCI address")]),
        ("- {on: 'ssh: x', do: 503}", [("f.yml:1:22", "'503' cannot happen on 'ssh: x'")]),
        ("- {on: StartService, do: {task-stuck: 5}}", [("f.yml:1:8", "StartService starts no task")]),
        ("- {on: CloneVM_Task, do: check-passes}", [("f.yml:1:8", "CloneVM_Task checks nothing")]),
        ("- {on: connect, when: after, do: drop}", [("f.yml:1:23", "on 'connect' there is only 'before'")]),
        ("- {on: any, when: after, do: lost-reply}", [("f.yml:1:19", "'lost-reply' cannot be 'after'")]),
        ("- {on: any, probability: 2, do: drop}", [("f.yml:1:26", "probability must be from 0 to 1, not '2'")]),
        ("- {on: any, nth: 1, every: 2, do: drop}", [("f.yml:1:28", "'nth' and 'every' exclude each other")]),
        ("- {on: 'ssh: (', do: drop}", [("f.yml:1:8", BAD_PATTERN)]),
        ("- {on: x", [("f.yml:1:3", "did not find expected ',' or '}' while parsing a flow mapping")]),
        ("[" * 900, [("f.yml:1:33", "this is nested more than 32 levels deep")]),
        ("- {on: any, do: drop}\n" * 1001, [("f.yml:1:1", "more than 1000 rules")]),
        ("- {on: any, do: drop}\n" * 20000, [("f.yml:16667:8", "the file holds more than 50000 values")]),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_with_its_place(text, expected):
    assert wrong(text) == expected


def test_all_errors_of_a_file_are_told_in_one_run(tmp_path):
    path = tmp_path / "f.yml"
    path.write_text("- {on: Foo, do: bar}\n- 7\n- {on: any, nth: 0, do: drop}\n")
    with pytest.raises(InputError) as caught:
        load(path)
    assert [d.mark.line for d in caught.value.diagnostics] == [1, 1, 2, 3]
    assert caught.value.exit_code == 65
    path.write_bytes(b"-\xff\xfe")
    with pytest.raises(InputError, match="0xff is not UTF-8"):
        load(path)


def test_every_word_can_be_written():
    values = {"seconds": "1s", "fault": "InvalidState", "status": "19", "percent": "20", "pci": "'0000:3b:00.0'"}
    values["alarm"], values["address"], values["count"] = "Host memory usage", "10.0.0.9", "8"
    for word, about in WORDS.items():
        on = next(k for k in ("any", "ssh: x") if k == "any" or about.events == ("ssh",))
        written = f"{{{word}: {values[about.value]}}}" if about.value in values else word
        assert rule(f"{{on: '{on}', do: {written}}}").do.word == word


@pytest.mark.parametrize(
    ("text", "event", "met"),
    [
        ("{on: any, do: drop}", call(), True),
        ("{on: any, do: drop}", FaultEvent("ssh", "ls", ("esx1",), ("esx1",)), True),
        ("{on: any, do: drop}", FaultEvent("connect"), False),
        ("{on: any, do: 503}", FaultEvent("ssh", "ls", ("esx1",), ("esx1",)), False),
        ("{on: any-mutation, do: drop}", call("RetrievePropertiesEx"), False),
        ("{on: any-mutation, do: drop}", call("ReconfigVM_Task"), True),
        ("{on: PowerOnVM_Task, target: vm*, do: drop}", call(name="vm1"), True),
        ("{on: PowerOnVM_Task, target: vm2, do: drop}", call(name="vm1"), False),
        ("{on: 'ssh: nvidia-smi .*-cgi', do: drop}", FaultEvent("ssh", "nvidia-smi mig -cgi 9"), True),
        ("{on: 'ssh: nvidia-smi .*-cgi', do: drop}", FaultEvent("ssh", "nvidia-smi mig -lgi"), False),
        ("{on: any, do: {task-stuck: 5}}", call("StartService"), False),
        ("{on: any, do: guest-stuck}", call("ShutdownGuest"), True),
        ("{on: any, do: guest-stuck}", call("PowerOffVM_Task"), False),
        ("{on: any, do: address-taken}", call("PowerOnMultiVM_Task"), True),
        ("{on: any, do: address-taken}", call("ShutdownGuest"), False),
        ("{on: any, do: power-loss}", FaultEvent("soap", "CreateFolder", ("f",)), False),
        ("{on: any, do: {power-loss: esx1}}", FaultEvent("soap", "CreateFolder", ("f",)), True),
        ("{on: ssh-connect, target: esx1, do: drop}", FaultEvent("ssh-connect", "", ("esx1",), ("esx1",)), True),
    ],
)
def test_what_a_rule_is_met_by(text, event, met):
    assert rule(text).matches(event) is met


@pytest.mark.parametrize(
    ("command", "mutating"),
    [
        ("nvidia-smi mig -i 0 -cgi 9,9 -C", True),
        ("nvidia-smi mig -dgi -gi 1", True),
        ("nvidia-smi -i 0 -mig 1", True),
        ("nvidia-smi mig -lgi", False),
        ("nvidia-smi -q -x", False),
        ("esxcli system maintenanceMode set -e true", True),
        ("esxcli system maintenanceMode get", False),
        ("esxcli system settings advanced list -o /Net/PVRDMAVmknic", False),
        ("esxcli system shutdown reboot -d 10 -r why", True),
        ("reboot", True),
        ("vim-cmd hostsvc/maintenance_mode_enter", True),
        ("vim-cmd hostsvc/hostsummary", False),
    ],
)
def test_which_commands_change_something(command, mutating):
    assert FaultEvent("ssh", command).mutating is mutating


def test_which_methods_change_something():
    """What a method says of itself where it is carried out, and what its name says to the rules: both look at each."""
    named = {m for m in managed.methods() if FaultEvent("soap", m).mutating}
    assert named == managed.changing_methods()
    assert {"ReconfigVM_Task", "RebootHost_Task", "StartService", "UpdateOptions"} < named < managed.methods()


def fires(text, count=12, seed=0):
    faults = FaultEngine()
    faults.set(parse(text, "f"), seed)
    return [n for n in range(1, count + 1) if faults.meet(call())]


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("{on: any, nth: 3, do: drop}", [3]),
        ("{on: any, nth: 3, times: 2, do: drop}", [3, 4]),
        ("{on: any, every: 4, do: drop}", [4, 8, 12]),
        ("{on: any, every: 4, times: 2, do: drop}", [4, 8]),
        ("{on: any, times: 2, do: drop}", [1, 2]),
        ("{on: any, probability: 0, do: drop}", []),
        ("{on: any, probability: 1, do: drop}", list(range(1, 13))),
        ("{on: StartService, do: drop}", []),
    ],
)
def test_when_a_rule_fires(text, at):
    assert fires(text) == at


def test_a_seed_makes_chance_happen_again():
    text = "{on: any, probability: 0.3, do: drop}"
    first = fires(text, 200, 5)
    assert first == fires(text, 200, 5)
    assert first != fires(text, 200, 6)
    assert 30 < len(first) < 90
    own = "{on: any, probability: 0.3, seed: 9, do: drop}"
    assert fires(own, 200, 5) == fires(own, 200, 6)


def test_one_fault_per_call_and_nobody_loses_his_turn():
    faults = FaultEngine()
    faults.set(parse("- {on: any, nth: 2, do: drop}\n- {on: any, nth: 2, do: hang}", "f"), 0)
    words = [f.rule.do.word if (f := faults.meet(call())) else "" for _ in range(4)]
    assert words == ["", "drop", "hang", ""]
    shown = faults.as_json()
    assert [(r["met"], r["fired"]) for r in shown["rules"]] == [(4, 1), (4, 1)]
    assert [(f["rule"], f["event"], f["object"]) for f in shown["fired"]] == [
        (1, "PowerOnVM_Task", "vm1"),
        (2, "PowerOnVM_Task", "vm1"),
    ]


def test_adding_keeps_counters_and_clearing_lets_go():
    faults = FaultEngine()
    faults.set(parse("{on: any, do: drop}", "f"), 0)
    fired = faults.meet(call())
    faults.add(parse("{on: any, do: hang}", "f"))
    assert [r["met"] for r in faults.as_json()["rules"]] == [1, 0]
    assert not fired.released.is_set()
    faults.clear()
    assert fired.released.is_set()
    assert faults.rules == ()
    assert faults.meet(call()) is None


def test_releasing_a_rule_lets_go_of_what_it_holds_and_of_nothing_else():
    faults = FaultEngine()
    faults.set(parse("- {on: PowerOnVM_Task, do: hold}\n- {on: PowerOffVM_Task, do: hold}", "f"), 0)
    on, off = faults.meet(call("PowerOnVM_Task")), faults.meet(call("PowerOffVM_Task"))
    assert faults.release(2)
    off.wait()
    assert off.released.is_set()
    assert not on.released.is_set()
    assert faults.meet(call("PowerOffVM_Task")) is None, "a rule that was released does not strike again"
    assert faults.meet(call("PowerOnVM_Task")) is not None
    assert not faults.release(3)
    assert not on.released.is_set()
    faults.set((), 0)
    assert on.released.is_set()
