"""Reports of what commands print as JSON: everything of it is in the page, and the pictures are of it."""

from __future__ import annotations

import copy
import itertools
import json
import re
from contextlib import suppress
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import large_fleets, large_reports
from support.large_reports import HOSTILE, WORLD
from support.seeds import by_level

from vsphere_ai.documents.findings import FindingDocument
from vsphere_ai.documents.reports import REPORTED, reported_document
from vsphere_ai.documents.stored import UnreadableDocument
from vsphere_ai.errors import UsageError
from vsphere_ai.language.inventories.patterns import expand
from vsphere_ai.model.finding import Finding
from vsphere_ai.model.names.name_ranges import listed
from vsphere_ai.model.state import Target
from vsphere_ai.model.text import safe
from vsphere_ai.planning.document import PlanDocument
from vsphere_ai.report.pages.formats.html import html
from vsphere_ai.report.pages.formats.markdown import MOST, markdown
from vsphere_ai.report.pages.formats.sarif import MOST as MOST_RESULTS
from vsphere_ai.report.pages.formats.sarif import MOST_BYTES
from vsphere_ai.report.pages.pictures.path_graph import path_graph
from vsphere_ai.report.pages.plan_page import places_of, plan_report
from vsphere_ai.report.pages.run_page import run_report
from vsphere_ai.report.report_in import FORMS, report_in, report_of, too_heavy

DOCUMENTS_OF = {
    "check": large_reports.check,
    "rdma trace": large_reports.trace,
    "capacity": large_reports.capacity,
    "fleet plan": large_fleets.plan,
}


class Text(HTMLParser):
    """The text of a page in one line, and its elements by class."""

    def __init__(self, text):
        super().__init__()
        self.found, self.classes = [], []
        self.feed(text)
        self.text = re.sub(r"\s+", " ", " ".join(self.found))
        terms = re.findall(r"[\w.-]+(?:\[\d+:\d+\])?[\w.]*", self.text)
        self.names = {name for term in terms for name in expand(term)}

    def handle_starttag(self, tag, attrs):
        self.classes += (dict(attrs).get("class") or "").split()

    def handle_data(self, data):
        self.found.append(data)


def document(name, hosts=3, vms=20):
    return json.loads(json.dumps(DOCUMENTS_OF[name](hosts, vms)))


def read(values):
    return reported_document(values, json.dumps(values).encode(), "a.json")


@pytest.mark.parametrize("name", REPORTED)
def test_a_document_is_known_by_its_keys(name):
    assert type(read(document(name))) is REPORTED[name][0]
    assert read({key: value for key, value in document(name).items() if key != "schema_version"}) is None


@pytest.mark.parametrize(("hosts", "vms"), [(3, 20), (40, 300)])
def test_every_finding_of_the_json_is_in_the_page(hosts, vms):
    check = document("check", hosts, vms)
    page = Text(html(report_of(read(check))))
    bad = [f for f in check["findings"] if f["verdict"] != "pass"]
    assert bad
    for each in bad:
        name = each["target"]["name"]
        assert name in page.names or HOSTILE[:20] in name
        for leaf in (each["rule"], safe(each["message"]), each["source"], each["evidence"][0]["path"]):
            assert leaf in page.text
    for each in check["findings"]:
        assert each["rule"] in page.text
        assert each["target"]["name"] in page.names or each["target"]["name"] == HOSTILE


def test_the_matrix_has_the_worst_verdict_of_each_rule_and_target():
    check = document("check")
    (matrix,) = report_of(read(check)).sections[0].pictures
    at = {name: dict(zip(matrix.columns, cells, strict=True)) for names, cells in matrix.rows for name in expand(names)}
    for each in check["findings"]:
        if each["target"]["name"] != HOSTILE:
            assert any(
                cells[each["rule"]] == each["verdict"]
                for names, cells in at.items()
                if each["target"]["name"] in re.split(r", ", names) or each["target"]["name"] in names
            )
    assert any("" in cells.values() for cells in at.values())


def test_paths_have_each_broken_link_once_and_named():
    trace = document("rdma trace", 3, 40)
    page = Text(html(report_of(read(trace))))
    assert "edge" in page.classes
    graph = path_graph(trace["traces"], trace["pairs"])
    broken = {h["target"]["name"] for t in trace["traces"] for h in t["links"] if h["verdict"] == "fail"}
    assert {e.label for e in graph.edges if e.status == "fail"} == broken
    assert all(e.label for e in graph.edges if e.status in ("fail", "unknown"))
    ends = [graph.nodes[e.end].column - graph.nodes[e.begin].column for e in graph.edges]
    assert set(ends) == {1}
    for column in range(len(graph.columns)):  # parts of a column do not overlap
        rows = sorted(n.row for n in graph.nodes if n.column == column)
        assert all(after - before >= 1 for before, after in itertools.pairwise(rows))
    for each in (h for t in trace["traces"] for h in t["links"] if h["verdict"] != "pass"):
        assert each["target"]["name"] in page.text
        assert each["message"] in page.text
        assert not each["fix"] or each["fix"]["line"] in page.text
    assert trace["playbook"].strip().splitlines()[1].strip() in page.text


def test_capacity_has_every_gpu_vm_and_what_fits():
    capacity = document("capacity", 3, 5)
    problem = Finding.problem(Target("vm", "train-9", "vm-9"), "vgpu.capacity", "no room", "take a smaller one")
    verdict = {"fits": False, "exact": True, "decided": True, "spare_hosts": 0, "left_over": ["train-9"], "room": {},
               "explanation": "no GPU is left", "problems": [FindingDocument.of(problem).as_json()]}  # fmt: skip
    capacity["verdict"] = verdict
    page = Text(html(report_of(read(capacity))))
    for host in capacity["hosts"]:
        assert host["host"] in page.names
        for gpu in host["gpus"]:
            assert gpu["pci"] in page.text
            assert all(safe(each["vm"])[:6] in page.text for each in gpu["running"])
    for words in ("no GPU is left", "train-9", "take a smaller one", "2 × grid_a100-1-5c", "not every VM fits"):
        assert words in page.text


def test_a_run_is_drawn_beside_what_was_planned():
    run = large_reports.run(3, 6)
    timeline = next(p for s in run_report(run).sections for p in s.pictures if p.form == "timeline")
    states = {state for bar in timeline.bars for state, _, _ in bar.spans}
    assert {"planned", "pass", "fail"} <= states
    ends = {s: max(b + t for bar in timeline.bars for state, b, t in bar.spans if state == s) for s in states}
    assert ends["planned"] < ends["pass"] == timeline.seconds  # the run was slower than expected
    without = {**run, "approved": {"items": [], "impact": {}}}
    assert "Timeline" in {s.title for s in run_report(without).sections}  # as an earlier version kept it


@pytest.mark.parametrize("name", ["plan", "run"])
@pytest.mark.parametrize("written", [html, markdown])
def test_the_header_names_the_vcenter_the_user_and_the_inventory(name, written):
    report, values = (plan_report, run_report)[name == "run"], getattr(large_reports, name)(2, 3)
    place = "prod (vc01.example.com) as svc-vsphere-ai@vsphere.local"
    inventory = "/srv/inventories/prod.yml" if name == "run" else "inventories/prod.yml"
    said = written(report(values)).replace("\\", "")
    assert said.index(place) < said.index(f"{inventory} (given with -i)") < said.index("Impact")
    assert "LAB" not in said
    assert f"LAB  {place}" in written(report({**values, "world": {**WORLD, "lab": True}})).replace("\\", "")
    older = {key: value for key, value in values.items() if key != "world"}
    assert "vcenter" in written(report(older)).casefold()


@pytest.mark.parametrize("name", ["plan", "run"])
def test_variables_that_are_used_are_there_with_what_gives_them(name):
    values = getattr(large_reports, name)(3, 3)
    (section,) = [s for s in (plan_report, run_report)[name == "run"](values).sections if s.title == "Variables"]
    assert section.rows == (
        ("profile", "grid_a100-3-20c", "play 'GPUs'", "playbooks/farm.yml:3:9", ""),
        ("racks", "a, b", "group racks", "", "esx[0001:0003].lab.local"),
    )


def test_the_map_has_every_vm_before_and_after():
    plan = large_reports.plan(3, 20)
    page = Text(html(plan_report(plan)))
    for host in plan["placed"]:
        assert {host["host"]["name"]} <= page.names
        for each in host["vms"]:
            assert each["vm"]["name"] in page.names or each["vm"]["name"] == HOSTILE
    assert "grid_a100-20c → grid_a100-3-20c, off and on" in page.text


def test_places_of_a_finding_are_those_of_its_kind_else_of_its_target_else_of_the_playbook():
    asked = [
        {"kind": "mig", "file": "farm.yml", "line": 9, "column": 3, "targets": ["HostSystem:1"]},
        {"kind": "graphics", "file": "farm.yml", "line": 4, "column": 3, "targets": ["HostSystem:1"]},
    ]
    place = places_of({"playbook": "farm.yml", "asked": asked})
    on = {"target": {"kind": "host", "name": "esx", "ref": "HostSystem:1"}}
    assert place({"rule": "mig.layout", **on}) == ("farm.yml", 9, 3)
    assert place({"rule": "host.connected", **on}) == ("farm.yml", 4, 3)
    assert place({"rule": "vcenter.version", "target": None}) == ("farm.yml", 0, 0)


def test_sarif_of_1000_hosts_keeps_the_limits():
    check = document("check", 1000, 1000)
    for each in check["findings"]:
        each.update(verdict="fail", message=f"{each['message']} {'x' * 3000}")
    text = report_in(read(check), "sarif")
    (run,) = json.loads(text)["runs"]
    assert len(text.encode()) <= MOST_BYTES
    left = run["invocations"][0]["toolExecutionNotifications"][0]["message"]["text"]
    assert len(run["results"]) + int(left.split()[0]) == len(check["findings"])
    assert len(run["results"]) <= MOST_RESULTS


@pytest.mark.parametrize("name", [*REPORTED, "plan", "run"])
def test_markdown_of_1000_hosts_fits_into_a_merge_request(name):
    if name in REPORTED:
        text = report_in(read(document(name, 1000, 1000)), "markdown")
    else:
        report = (
            plan_report(large_reports.plan(1000, 1000)) if name == "plan" else run_report(large_reports.run(1000, 9))
        )
        text = markdown(report)
    assert 100 < len(text) <= MOST
    assert "<script>" not in text


def test_gitlab_gets_the_numbers_of_targets():
    values = {**large_reports.plan(3, 6), "problems": [], "impact": {"created": [], "destroyed": []}}
    made = [{"kind": "vm", "name": "new", "ref": "VirtualMachine:new"}]
    values["impact"] = {"created": made}
    values["items"].append({"target": made[0], "kind": "vgpu", "changes": [{"field": "profiles", "after": ["a"]}]})
    plan = PlanDocument.model_validate(values)
    assert json.loads(report_in(plan, "gitlab-terraform")) == {"create": 1, "update": 9, "delete": 0}
    with pytest.raises(UsageError):
        report_in(read(document("check")), "gitlab-terraform")


@pytest.mark.parametrize("name", REPORTED)
@pytest.mark.parametrize("form", [f for f in FORMS if f != "gitlab-terraform"])
def test_every_document_has_every_form(name, form):
    text = report_in(read(document(name)), form)
    assert text
    assert "\u202e" not in text


@given(data=st.data())
@settings(max_examples=by_level(60, 600, 6000), deadline=None)
def test_a_broken_document_is_refused_or_reported_and_never_a_crash(data):
    found = document(data.draw(st.sampled_from(sorted(REPORTED))), 1, 3)
    values = copy.deepcopy(found)
    at, key = values, data.draw(st.sampled_from(sorted(values)))
    for _ in range(data.draw(st.integers(0, 4))):
        if isinstance(at[key], dict) and at[key]:
            at, key = at[key], data.draw(st.sampled_from(sorted(at[key])))
        elif isinstance(at[key], list) and at[key]:
            at, key = at[key], data.draw(st.integers(0, len(at[key]) - 1))
    at[key] = data.draw(st.sampled_from([None, 1, "x", [], {}, [1], {"a": 1}, True]))
    written = ""
    with suppress(UnreadableDocument, UsageError):
        source = read(values)
        written = report_in(source, "html") if source else ""
    assert not written or written.startswith("<!doctype html>")


def test_a_page_that_is_too_heavy_is_named():
    assert too_heavy(html(report_of(read(document("check"))))) == ""
    assert "3.0 MB" in too_heavy("x" * 3_000_001)
    assert "10001 elements" in too_heavy("<p>" * 10_001)


def test_names_are_folded_and_hostile_ones_stay_text():
    text = html(report_of(read(document("capacity", 30, 8))))
    assert listed([f"esx{n:04}.lab.local" for n in range(3, 31)]) in text
    assert "<script>alert" not in text
