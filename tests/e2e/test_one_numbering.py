"""One numbering: plan, log, JSON lines, record and report of a run count the same steps and targets by one number."""

from __future__ import annotations

import json
import re
from collections import Counter

import pytest
from support.places import PLAYBOOKS

from vsphere_ai.runs import journal

pytestmark = pytest.mark.lab
PLAYBOOK = PLAYBOOKS / "hardware-upgrade.yml"
FAILS = "- {on: UpgradeVM_Task, target: train-02, do: {task-fails: InvalidState}}\n"


def numbers(text):
    """The numbers of ``1-3, 7``."""
    found = set()
    for part in text.split(", "):
        first, _, last = part.partition("-")
        found |= set(range(int(first), int(last or first) + 1))
    return found


def number(name):
    return int(name.lstrip("s"))


@pytest.fixture
def plan(cli, lab):
    """The plan as JSON: the numbers that everything else has to have; and the text's."""
    found = cli.plan(PLAYBOOK)
    assert [number(s["id"]) for s in found["steps"]] == list(range(1, len(found["steps"]) + 1))
    assert cli("plan", PLAYBOOK, "--full") == 0
    order = cli.out.partition("\nORDER\n")[2].partition("\n\n")[0]
    lines = [m for m in re.findall(r"^ +([\d, -]*\d)  \S", order, re.MULTILINE)]
    assert set().union(*map(numbers, lines)) == {number(s["id"]) for s in found["steps"]}
    assert f" · {len(found['steps'])} steps\n" in cli.out
    lab.set_faults(FAILS)
    return found


def becomes(run, plan):
    """What became of each step by its number, from the record of a run; the rest was not started."""
    steps = {number(s["id"]): s for s in run["steps"]}
    left = {number(s["id"]) for s in run["not_begun"]}
    by_id = {number(s["id"]): s for s in plan["steps"]}
    assert steps.keys() | left == by_id.keys()
    for name, step in steps.items():
        assert (step["target"], step["summary"]) == (by_id[name]["target"]["name"], by_id[name]["summary"])
    return Counter(s["state"] for s in steps.values() if s["state"] != "skipped"), len(by_id)


def recorded(cli, plan):
    """The record of the one run: as JSON, as text with each step, and as a report."""
    (record,) = journal.every()
    assert cli("run", "show", record.id, "-o", "json") == 0
    run = json.loads(cli.out)
    states, total = becomes(run, plan)
    main = ["run", "show", record.id, "--full"]
    assert cli(*main) == 0
    shown = cli.out.partition("STEPS (UTC)")[2]
    said = {int(n): words for n, words in re.findall(r"^  \d\d:\d\d:\d\d  (\d+)  (.*)$", shown, re.MULTILINE)}
    assert said.keys() == {number(s["id"]) for s in run["steps"]}
    assert sum("— done" in words for words in said.values()) == states["done"]
    assert cli("run", "report", record.id, "-o", "markdown") == 0
    assert f"{states['done']} of {total} steps done, {states['failed']} failed" in cli.out.replace("\\", "")
    return run, states, total


def test_plan_log_record_and_report_have_the_numbers_of_the_plan(cli, plan):
    assert cli("apply", PLAYBOOK, "--yes", "-v") == 1
    out = cli.out
    log = [line for line in out.splitlines() if re.match(r"\d\d:\d\d:\d\d ", line)]
    found = {int(n): line for line in log for n, total in re.findall(r"\[(\d+)/(\d+)\]", line) if " — " in line}
    by_id = {number(s["id"]): s for s in plan["steps"]}
    assert found.keys() == by_id.keys()
    for name, line in found.items():
        assert by_id[name]["target"]["name"] in line
        assert by_id[name]["summary"] in line
    end = r"^(\d+ of \d+) steps done.*\n  steps    (.*)\n  targets  (.*)$"
    head, steps, targets = re.search(end, out, re.MULTILINE).groups()
    _, states, total = recorded(cli, plan)
    assert head == f"{states['done']} of {total}"
    counted = {word: int(n) for n, word in re.findall(r"(\d+) ([a-z ]+)", steps)}
    assert counted == {"done": states["done"], "failed": states["failed"], "not started": total - sum(states.values())}
    assert sum(int(n) for n in re.findall(r"(\d+) [a-z]", targets)) == len({s["target"]["ref"] for s in plan["steps"]})


def test_json_lines_and_record_have_the_numbers_of_the_plan(cli, plan):
    assert cli.run("apply", PLAYBOOK, "--yes") == 1
    first, summary, events = cli.lines[0], cli.summary, cli.events
    by_id = {s["id"]: s for s in plan["steps"]}
    assert first["steps"] == len(by_id)
    assert {e["step"] for e in events if "step" in e} == by_id.keys()
    assert all(by_id[e["step"]]["summary"] == e["summary"] for e in events if "step" in e)
    assert {o["step"] for o in summary["outcomes"]} == by_id.keys()
    run, states, total = recorded(cli, plan)
    assert (summary["done"], summary["failed"], summary["unknown"]) == (states["done"], states["failed"], 0)
    assert summary["skipped"] == total - sum(states.values())
    assert (len(summary["open"]), run["run"]) == (len(run["open"]), first["run"])


def test_the_folded_log_has_no_number_twice_and_none_that_the_plan_lacks(cli, plan):
    assert cli("apply", PLAYBOOK, "--yes") == 1
    found = [n for own in re.findall(r"\[([\d, -]*\d)(?:, …)?/\d+\]", cli.out) for n in numbers(own)]
    assert len(found) > 3
    assert len(found) == len(set(found))
    assert set(found) <= {number(s["id"]) for s in plan["steps"]}
