"""Tasks of a new user beside plan and apply: a project, VMs of others, Ansible, CI, several sites and vCenters."""

from __future__ import annotations

import json
import os
import re
import sys

import pytest
from integrations.forge import Forge
from support.places import INVENTORY
from support.required import required_module
from support.users import User
from support.vm_sets import INVENTORY as POOLS
from support.vm_sets import disowned, play

pytestmark = pytest.mark.lab
TWO = play("train-[01:02]", nics=2)
SITE = """\
name: {0}
timing: {{boot_seconds: 0.3, task_seconds: 0.005, shutdown_seconds: 0.1, vmotion_seconds: 0.02}}
clusters: [{{name: {0}}}]
hosts: [{{name: esx01.{0}.local, cluster: {0}, ssh: {{running: true, policy: on}}}}]
vms: [{{name: "{0}-[01:02]", host: esx01.{0}.local}}]
"""
VCENTER = """\
  {0}:
    address: 127.0.0.1
    port: {1.port}
    username: administrator@vsphere.local
    password: "file:{1.directory}/password"
    tls: {{ca_file: "{1.directory}/ca.pem"}}
"""


def changed(lab):
    return {e["object"] for e in lab.get("/lab/ledger")["entries"]}


def test_begin_a_project(tmp_path, lab):
    """Two files are written; the first plan finds nothing; an edit is refused with the line that is missing."""
    user = User(tmp_path, lab, "docs/init.md")
    user.folder = tmp_path / "empty"
    user.folder.mkdir()
    screen = user.types("vsphere-ai init --lab")
    planned = re.search(r"vsphere-ai plan \S+", screen)[0]
    assert "Nothing to do" in user.types(planned)
    playbook = user.folder / "playbook.yml"
    text = playbook.read_text()
    edited = re.sub(r"(?m)^( *graphics: \{default_type: shared)\b", r"\1_direct", text, count=1)
    assert edited != text
    user.writes("playbook.yml", edited)
    missing = re.search(r"write (rolling: \{evacuate: power_off\})", user.types(planned, ends=1))[1]
    user.writes("playbook.yml", re.sub(r"(?m)^( *)(graphics: .*_direct.*)$", rf"\1\2\n\1{missing}", edited))
    assert "shared_direct" in user.types(planned)
    assert changed(lab) == set(), "nothing but reading"


def test_two_sites_with_one_playbook(tmp_path, lab):
    """The comment at the head of the example is all that is read; the plan says which value came from where."""
    user = User(tmp_path, lab, "playbooks/two-sites.yml")
    user.asks_for_help("apply")
    for site in ("berlin", "munich"):
        values = f"playbooks/sites/{site}.yml"
        screen = user.types(f"vsphere-ai plan playbooks/two-sites.yml --vars-file {values}", ends=None)
        assert re.search(rf"site = {site}\s+\(vars file: {re.escape(values)}:\d+:\d+\)", screen, re.IGNORECASE)
    user.types("vsphere-ai apply playbooks/two-sites.yml --vars-file playbooks/sites/berlin.yml --yes")
    assert "Nothing to do" in user.types(
        "vsphere-ai plan playbooks/two-sites.yml --vars-file playbooks/sites/berlin.yml"
    )


def test_two_vcenters_with_one_inventory(tmp_path, make_lab):
    """A plan without a vCenter says which there are and how one is chosen; header and result name it."""
    labs = {site: make_lab(SITE.format(site)) for site in ("berlin", "munich")}
    user = User(tmp_path)
    user.asks_for_help("apply")
    user.writes("both.yml", "vcenters:\n" + "".join(VCENTER.format(*site) for site in labs.items()))
    user.writes("farm.yml", "- vms: munich-*\n  hardware: {version: 19}\n")
    screen = user.types("vsphere-ai plan farm.yml -i both.yml", ends=65)
    assert "berlin, munich" in screen
    screen = user.types("vsphere-ai apply farm.yml -i both.yml --vcenter munich --yes")
    assert f"vCenter munich (127.0.0.1:{labs['munich'].port})" in screen
    assert changed(labs["munich"]) == {"munich-01", "munich-02"}
    screen = user.types("vsphere-ai plan farm.yml -i both.yml --vcenter berlin", ends=None)
    assert f"vCenter berlin (127.0.0.1:{labs['berlin'].port})" in screen
    assert "munich-*" in screen, "the pattern that is for nothing there"
    assert changed(labs["berlin"]) == set()


def test_adopt_a_vm_of_someone_else(tmp_path, cli, sets, new_client):
    """The plan refuses the name that is taken, and says the command that makes the VM one of the set."""
    sets.applied(TWO)
    disowned(new_client(sets.lab), "train-02")
    user = User(tmp_path / "user", sets.lab)
    user.writes("vsphere-ai.yaml", POOLS)
    user.writes("train.yml", TWO)
    screen = " ".join(user.types("vsphere-ai plan train.yml", ends=1).split())
    assert "train-02" in screen
    assert "vsphere-ai adopt PLAYBOOK train-02" in screen
    user.asks_for_help("adopt")
    user.types("vsphere-ai adopt train.yml train-02 --dry-run")
    user.types("vsphere-ai adopt train.yml train-02 --yes")
    assert "Nothing to do" in user.types("vsphere-ai plan train.yml")


def test_run_from_ansible(tmp_path, lab):
    """The page is all that is read: its commands install the collection, its tasks are the play."""
    required_module("ansible", "ansible")
    user = User(tmp_path, lab, "docs/ansible.md")
    user.environment |= {"ANSIBLE_HOME": str(tmp_path / "home"), "ANSIBLE_NOCOLOR": "1"}
    user.environment["ANSIBLE_COLLECTIONS_PATH"] = str(tmp_path / "home" / "collections")
    user.types("vsphere-ai examples integrations/ansible --to .")
    user.types("ansible-galaxy collection install ./integrations/ansible")
    task = {"vsphere_ai.farm.apply": {"playbook": "playbooks/hardware-upgrade.yml", "inventory": str(INVENTORY)}}
    user.writes("site.yml", json.dumps([{"hosts": "localhost", "gather_facts": False, "tasks": [task]}]))
    screen = user.types("ansible-playbook site.yml --check --diff")
    assert "changed=1" in screen
    assert changed(lab) == set()
    assert "changed=1" in user.types("ansible-playbook site.yml")
    assert changed(lab)
    assert "changed=0" in user.types("ansible-playbook site.yml")


def test_run_in_ci(tmp_path, lab):
    """What a pipeline does, typed by hand: the plan is saved, its comment is written, exactly it is applied."""
    user = User(tmp_path, lab, "docs/ci.md")
    user.types("vsphere-ai examples integrations/ci --to .")
    user.reads_own("integrations/ci/gitlab/vsphere-ai.gitlab-ci.yml")
    forge = Forge("gitlab")
    user.environment |= {
        "PLAYBOOK": "playbooks/hardware-upgrade.yml", "INVENTORY": str(INVENTORY), "OUT": "vsphere-ai-out",
        "GITLAB_CI": "true", "CI_API_V4_URL": forge.url, "CI_PROJECT_ID": "3", "CI_MERGE_REQUEST_IID": "7",
        "GITLAB_TOKEN": "t0ken", "PATH": f"{os.path.dirname(sys.executable)}:{user.environment['PATH']}",
    }  # fmt: skip
    try:
        user.types("python3 integrations/ci/vsphere_ai_ci.py plan")
        assert changed(lab) == set()
        user.types("python3 integrations/ci/vsphere_ai_ci.py comment")
        ((own, comment),) = forge.comments.values()
        assert own
        assert "train-" in comment
        user.types("python3 integrations/ci/vsphere_ai_ci.py apply")
    finally:
        forge.close()
    assert changed(lab)
    line = f'vsphere-ai verify -i {INVENTORY} "playbooks/hardware-upgrade.yml"'
    user.types(line)
