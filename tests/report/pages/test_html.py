"""HTML of a report: everything that the JSON has is in it, it loads nothing, and it stays small for 1,000 hosts."""

import base64
import hashlib
import json
import re
from dataclasses import replace
from datetime import UTC, datetime
from html.parser import HTMLParser

import pytest
from support.estates import CLUSTER, estate, guest, host, made, wants

from vsphere_ai.health.certificate import Certificate, Gate, Measurement
from vsphere_ai.health.certificate_document import digest_of
from vsphere_ai.language.inventories.patterns import expand
from vsphere_ai.model.state import Target
from vsphere_ai.planning.document import plan_document
from vsphere_ai.report.pages.certificate_page import certificate_report
from vsphere_ai.report.pages.formats.html import Frame, PageLink, html, key_of, page, policy, section_html
from vsphere_ai.report.pages.pictures.geometry import GPU
from vsphere_ai.report.pages.plan_page import plan_report
from vsphere_ai.report.pages.run_page import run_report
from vsphere_ai.resources.host_graphics import HostGraphics
from vsphere_ai.resources.vm_hardware import VmHardware

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(1)>\"'\u202e"
SEEN = "<script>alert(1)</script><img src=x onerror=alert(1)>\"'\ufffd"
VOID = {"meta", "link", "input"}
MOST_BYTES, MOST_NODES = 3_000_000, 10_000


class Page(HTMLParser):
    """Elements, attributes and text of a page."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.texts, self.open = [], [], []
        self.feed(text)
        self.close()
        self.text = re.sub(r"\s+", " ", " ".join(self.texts))

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID and not self.get_starttag_text().endswith("/>"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in ("path",):
            assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)

    def names(self):
        """The names that ranges in it stand for."""
        terms = re.findall(r"[\w.-]+(?:\[\d+:\d+\])[\w.]*", self.text)
        return {name for term in terms for name in expand(term)}


def mig(name, before, after):
    target = {"kind": "host", "name": name, "ref": f"HostSystem:{name}"}
    change = {"field": "0000:3b:00.0 layout", "sign": "~", "before": before, "after": after}
    return {"target": target, "kind": "mig", "changes": [change], "notes": ["lost at reboot"]}


def a_plan(**more):
    esx = Target("host", "esx01", "HostSystem:host-1")
    vm = Target("vm", "train-01", "VirtualMachine:vm-1")
    wanted = {esx: wants(HostGraphics(default_type="shared_direct")), vm: wants(VmHardware(version=19))}
    document = plan_document(made(estate(host(esx, parent=CLUSTER), guest(vm, esx, config__version="vmx-17")), wanted))
    return {**json.loads(json.dumps(document)), "digest": "ab" * 32, **more}


def problem(name, message="no room"):
    target = {"kind": "vm", "name": name, "ref": f"VirtualMachine:{name}"}
    return {"target": target, "rule": "vgpu.capacity", "message": message, "remedy": "take a smaller profile"}


def a_run(**more):
    plan = a_plan()
    times = {"began": "2026-11-24T02:00:00.000+00:00", "ended": "2026-11-24T02:10:00.000+00:00"}
    common = {
        "attempt": 1,
        "what": "reboot",
        "kinds": "mig",
        "ref": "HostSystem:host-1",
        "task": "Task:task-7",
        **times,
    }
    steps = [
        {"id": "s001", "target": "esx01", "summary": "reboot", "state": "done", "error": None, **common},
        {
            "id": "s002",
            "target": HOSTILE,
            "summary": "power on",
            "state": "failed",
            "error": "no GPU is free",
            **common,
        },
        {**common, "id": "s003", "target": "vm9", "summary": "wait", "state": "begun", "error": None, "ended": None},
    ]
    pending = {"kind": "off", "name": "train-01", "ref": "VirtualMachine:vm-1", "detail": "", "sent": None}
    return {
        "run": "20261124-020000-abcd",
        "state": "failed",
        "what": "farm.yml",
        "scope": {"vcenter": "prod", "address": "vc01", "limit": "", "inventory": "/srv/prod.yml"},
        "exit_code": 1,
        "open": ["train-01 is off"],
        "approved": {"items": plan["items"], "impact": plan["impact"]},
        "steps": steps,
        "not_begun": [{"id": "s004", "target": "esx02", "summary": "leave maintenance mode"}],
        "pending_actions": [{**pending, "opened": times["began"], "closed": None}],
        "resume_command": "vsphere-ai resume 20261124-020000-abcd",
        **more,
    }


GATES = (
    Gate("assess", (Measurement("reliability.ha", "warn", "vSphere HA is off", ("cluster:gpu-a",)),), seconds=2.5),
    Gate("nccl", (Measurement("all_reduce", "pass", "94 %", (), 188.5, 180.0, "GB/s"),), needs=("all_gather",)),
    Gate("megatron", error=f"no {HOSTILE}"),
)
CERTIFICATE = Certificate(
    "vc01", "train", "vsphere-ai 1", datetime(2026, 11, 23, tzinfo=UTC), GATES, {"host:esx01": {"build": "17867351"}},
    {"attest.yml": "ab"},
)  # fmt: skip
REPORTS = {
    "plan": plan_report(a_plan(items=[mig("esx01", [], ["3g.20gb:4"])], problems=[problem(HOSTILE, HOSTILE)])),
    "run": run_report(a_run()),
    "certificate": certificate_report(CERTIFICATE),
}


def leaves(value):
    """The texts and numbers of a JSON value."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return [leaf for each in value for leaf in leaves(each)]
    return [] if value is None or isinstance(value, bool) or value == "" else [str(value)]


def test_all_of_a_plan_is_in_it():
    items = [*a_plan()["items"], mig("esx07", ["7g.40gb:0"], ["3g.20gb:4", "4g.20gb:0"])]
    plan = a_plan(items=items, problems=[problem("train-09")])
    page = Page(html(plan_report(plan)))
    for item in plan["items"]:
        for leaf in (item["target"]["name"], item["kind"], *item["notes"], *leaves(item["changes"])):
            assert leaf in page.text or leaf in "+-~", leaf
    for each in (*plan["problems"], *plan["findings"]):
        for leaf in leaves({**each, "target": each["target"]["name"]}):
            assert leaf in page.text
    for step in plan["steps"]:
        for leaf in (step["id"], step["target"]["name"], step["summary"], *step["after"]):
            assert leaf in page.text
    targets = [t["name"] for found in plan["impact"].values() if isinstance(found, list) for t in found if "name" in t]
    assert targets
    assert all(name in page.text for name in targets)
    assert "refused" in page.text


def test_all_of_a_run_is_in_it():
    run = a_run()
    page = Page(html(run_report(run)))
    for step in run["steps"]:
        for leaf in leaves({k: step[k] for k in ("id", "summary", "error", "task", "attempt")}):
            assert leaf in page.text
    for leaf in leaves([run["open"], run["not_begun"], run["pending_actions"][0]["name"], run["resume_command"]]):
        assert leaf in page.text
    assert "began, its end is not known" in page.text
    assert "fail" in {attributes.get("class", "").removeprefix("span-") for _, attributes in page.elements}


def test_all_of_a_certificate_is_in_it():
    page = Page(html(certificate_report(CERTIFICATE)))
    for words in (
        digest_of(CERTIFICATE),
        "vSphere HA is off",
        "188.5 GB/s",
        "180 GB/s",
        "no measurement of all_gather",
    ):
        assert words in page.text
    for words in ("cluster:gpu-a", "17867351", "attest.yml", "host:esx01", "megatron"):
        assert words in page.text


@pytest.mark.parametrize("name", REPORTS)
def test_it_loads_nothing_and_hostile_names_are_only_text(name):
    text = html(REPORTS[name])
    page = Page(text)
    assert not page.open
    assert SEEN in page.text
    tags = {tag for tag, _ in page.elements}
    assert sum(tag == "script" for tag, _ in page.elements) == 1
    assert not tags & {"img", "iframe", "object", "embed", "base", "form"}
    for tag, attributes in page.elements:
        assert not {a for a in attributes if a.startswith("on") or a in ("style", "src", "srcset")}
        assert attributes.get("href", "#").startswith("#") or (tag, attributes["href"]) == ("link", "data:,")
    assert "@import" not in text
    assert "://" not in text


@pytest.mark.parametrize("name", REPORTS)
def test_its_policy_allows_its_own_style_and_script_and_nothing_else(name):
    text = html(REPORTS[name])
    style, script = (re.search(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)[1] for tag in ("style", "script"))
    assert len(script) <= 5_000
    own = [base64.b64encode(hashlib.sha256(part.encode()).digest()).decode() for part in (style, script)]
    policy = next(a["content"] for _, a in Page(text).elements if a.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith(f"default-src 'none'; style-src 'sha256-{own[0]}'; script-src 'sha256-{own[1]}'; ")
    assert "unsafe" not in policy


@pytest.mark.parametrize("name", REPORTS)
def test_it_is_for_keyboards_and_screen_readers(name):
    page = Page(html(REPORTS[name]))
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert ("html", {"lang": "en"}) in page.elements
    for tag, attributes in page.elements:
        for referred in attributes.get("aria-labelledby", "").split():
            assert referred in ids
        if attributes.get("class") == "scroll":  # what scrolls has to be reached by keys, and have a name
            assert attributes["tabindex"] == "0"
            assert attributes.get("aria-label") or attributes.get("aria-labelledby")
        if tag == "svg":
            assert attributes.get("role") == "img" or attributes.get("aria-hidden") == "true"
        if tag == "a":
            assert attributes["href"].removeprefix("#") in ids


def test_slices_are_one_path_before_and_one_after():
    items = [mig(f"esx{n:02}", ["7g.40gb:0"], ["3g.20gb:4", "1g.5gb:0"]) for n in range(4)]
    page = Page(html(plan_report(a_plan(items=items))))
    paths = [a["d"] for tag, a in page.elements if tag == "path" and a.get("class") in ("before", "after")]
    assert [d.count("M") for d in paths] == [1, 2]  # four hosts alike are one picture
    assert "h290" in paths[0]  # seven slices
    assert paths[1].startswith(f"M{GPU.after + 4 * 42 + 2} ")  # it begins at the fifth slice
    assert "esx[00:03]" in page.text


def test_1000_hosts_stay_in_the_budget():
    plan = a_plan()
    names = [f"esx{n:04}.lab.local" for n in range(1000)]
    targets = [{"kind": "host", "name": name, "ref": f"HostSystem:{name}"} for name in names]
    items = [mig(name, ["7g.40gb:0"], [f"{n % 3 + 1}g.20gb:4"]) for n, name in enumerate(names)]
    problems = [problem(name, f"no room for {n}") for n, name in enumerate(names)]
    steps = [
        {**plan["steps"][0], "id": f"s{n:05}", "target": targets[n % 1000], "summary": f"make instance {n} of a GPU"}
        for n in range(8000)
    ]
    impact = {**plan["impact"], "reboots": targets, "maintenance": targets}
    text = html(plan_report({**plan, "items": items, "problems": problems, "steps": steps, "impact": impact}))
    page = Page(text)
    assert len(text.encode()) <= MOST_BYTES
    assert len(page.elements) <= MOST_NODES
    assert set(names) <= page.names()
    assert all(f"make instance {n} of a GPU" in page.text for n in range(0, 8000, 7))
    assert all(f"no room for {n}" in page.text for n in range(1000))


def test_a_run_of_1000_hosts_stays_in_the_budget():
    step = a_run()["steps"][0]
    steps = [{**step, "id": f"s{n:05}", "target": f"esx{n // 8:04}.lab.local"} for n in range(8000)]
    text = html(run_report(a_run(steps=steps)))
    page = Page(text)
    assert len(text.encode()) <= MOST_BYTES
    assert len(page.elements) <= MOST_NODES
    assert all(f"s{n:05}" in page.text for n in range(0, 8000, 7))
    labels = re.findall(r'<text x="0" y="[0-9]+">(.*?)</text>', text)
    assert labels == [f"esx{n:04}.lab.local" for n in range(1000)]  # every host has its row


def test_a_server_has_its_links_its_script_and_its_own_policy():
    frame = Frame(
        (PageLink("Estate", "/", current=True), PageLink(HOSTILE, "/runs")), ("/live.js",), {"events": "/events"}, False
    )
    text = page(REPORTS["plan"], frame)
    found = Page(text)
    assert "Content-Security-Policy" not in text
    assert ("script", {"src": "/live.js", "defer": None}) in found.elements
    assert ("body", {"data-events": "/events"}) in found.elements
    assert ("a", {"href": "/", "aria-current": "page"}) in found.elements
    assert SEEN in found.text
    assert "connect-src 'self'" in policy("'self'")


def test_a_section_by_itself_is_as_on_its_page():
    section = REPORTS["plan"].sections[0]
    text = section_html(section)
    assert f'id="{key_of(section)}"' in text
    assert text in page(REPORTS["plan"])


def test_sections_of_the_same_name_have_ids_of_their_own():
    twice = replace(REPORTS["plan"], sections=REPORTS["plan"].sections[:1] * 2)
    ids = [a["id"] for _, a in Page(html(twice)).elements if "id" in a]
    assert len(ids) == len(set(ids))


def test_a_report_without_rows_has_no_empty_sections():
    empty = replace(REPORTS["plan"], sections=())
    assert "<section" not in html(empty)
