"""The lab's vSphere Automation API: sessions and tags, over HTTP by hand."""

from __future__ import annotations

import base64
import http.client
import json
import ssl

import pytest

pytestmark = pytest.mark.lab
SCENARIO = """
name: tagged
clusters: [{name: gpu-a}]
tags: [Stage/frozen]
hosts:
  - {name: esx01.lab.local, cluster: gpu-a, tags: [Team/ml], attributes: {rack: r1}}
vms:
  - {name: "train-[01:02]", host: esx01.lab.local, tags: [Team/ml, Site/a], attributes: {owner: ml}}
"""
OF_CATEGORY = "/api/cis/tagging/tag?action=list-tags-for-category"
ATTACHED = "/api/cis/tagging/tag-association?action=list-attached-objects-on-tags"


class Rest:
    def __init__(self, lab):
        context = ssl.create_default_context(cafile=str(lab.directory / "ca.pem"))
        self.connection = http.client.HTTPSConnection("127.0.0.1", lab.port, context=context, timeout=10)
        self.password = (lab.directory / "password").read_text(encoding="utf-8").strip()
        self.token = ""

    def __call__(self, method, path, body=None, **headers):
        own = {"vmware-api-session-id": self.token} if self.token else {}
        self.connection.request(method, path, json.dumps(body) if body is not None else None, {**own, **headers})
        answer = self.connection.getresponse()
        content = answer.read()
        return answer.status, json.loads(content) if content else None

    def login(self, password=None):
        given = base64.b64encode(f"administrator@vsphere.local:{password or self.password}".encode()).decode()
        status, found = self("POST", "/api/session", Authorization=f"Basic {given}")
        self.token = found if status == 201 else ""
        return status


@pytest.fixture
def rest(make_lab):
    made = make_lab(SCENARIO)
    client = Rest(made)
    yield client
    client.connection.close()


def named(rest, path):
    return {rest("GET", f"{path}/{identity}")[1]["name"]: identity for identity in rest("GET", path)[1]}


def test_tags_are_listed_by_category_with_the_objects_they_are_attached_to(rest):
    assert rest.login() == 201
    categories = named(rest, "/api/cis/tagging/category")
    assert set(categories) == {"Team", "Site", "Stage"}
    tags = named(rest, "/api/cis/tagging/tag")
    assert set(tags) == {"ml", "a", "frozen"}
    assert rest("POST", OF_CATEGORY, {"category_id": categories["Team"]}) == (200, [tags["ml"]])
    assert rest("GET", f"/api/cis/tagging/tag/{tags['ml']}")[1]["category_id"] == categories["Team"]
    status, found = rest("POST", ATTACHED, {"tag_ids": [tags["ml"], tags["frozen"]]})
    assert status == 200
    by_tag = {of["tag_id"]: sorted(o["type"] for o in of["object_ids"]) for of in found}
    assert by_tag == {tags["ml"]: ["HostSystem", "VirtualMachine", "VirtualMachine"], tags["frozen"]: []}


def test_nothing_is_answered_without_a_session(rest):
    for method, path in (("GET", "/api/cis/tagging/category"), ("POST", ATTACHED), ("DELETE", "/api/session")):
        status, said = rest(method, path, {} if method == "POST" else None)
        assert (status, said["error_type"]) == (401, "UNAUTHENTICATED")
    assert rest.login("wrong") == 401
    assert rest.login() == 201
    assert rest("GET", "/api/cis/tagging/category")[0] == 200
    assert rest("DELETE", "/api/session") == (204, None)
    assert rest("GET", "/api/cis/tagging/category")[0] == 401, "it was logged out"


def test_what_makes_no_sense_is_refused(rest):
    assert rest.login() == 201
    assert rest("POST", ATTACHED, {})[0] == 400
    assert rest("POST", OF_CATEGORY, {"category_id": "nothing"})[0] == 404
    assert rest("GET", "/api/vcenter/vm")[0] == 404


def test_custom_attributes_of_the_scenario_are_there(make_lab, new_client):
    client = new_client(make_lab(SCENARIO))
    fields = {f.key: f.name for f in client.content.customFieldsManager.field}
    assert {fields[v.key]: v.value for v in client.vm("train-01").customValue} == {"owner": "ml"}
    host = client.find(client.vim.HostSystem, "esx01.lab.local")
    assert {fields[v.key]: v.value for v in host.customValue} == {"rack": "r1"}
    assert {f.name for f in host.availableField} == {"owner", "rack"}


def test_a_tag_without_a_category_is_refused(tmp_path):
    from vsphere_ai.errors import InputError
    from vsphere_ai.lab.scenario_file import parse

    with pytest.raises(InputError, match="'ml' has no category"):
        parse(SCENARIO.replace("Team/ml, Site/a", "ml"), "farm.yml")


def test_api_is_there_from_7_0_u2_on(make_lab):
    made = make_lab(SCENARIO.replace("name: tagged", "name: tagged\nvcenter: {version: 7.0.1, api: 7.0.1.0}"))
    assert Rest(made).login() == 404
