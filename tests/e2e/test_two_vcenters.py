"""Two vCenters in one project: one inventory or two, the same playbook for both, and nothing of one on the other."""

from __future__ import annotations

import json

import pytest

from vsphere_ai.security.state_dir import state_dir

pytestmark = pytest.mark.lab
SCENARIO = """
name: {0}
timing: {{boot_seconds: 0.3, task_seconds: 0.005, shutdown_seconds: 0.1, vmotion_seconds: 0.02}}
clusters: [{{name: {0}}}]
hosts: [{{name: esx01.{0}.local, cluster: {0}, ssh: {{running: true, policy: on}}, tags: [Team/ml]}}]
vms: [{{name: "{0}-[01:02]", host: esx01.{0}.local, tags: [Team/ml]}}]
"""
PLAY = "- vms: {tag: Team/ml}\n  hardware: {version: 19}\n"
SITES = ("berlin", "munich")


@pytest.fixture
def sites(make_lab):
    return {site: make_lab(SCENARIO.format(site)) for site in SITES}


@pytest.fixture
def both(cli, sites):
    return cli.file(f"vcenters:\n{''.join(entry(site, lab) for site, lab in sites.items())}", "both.yml")


def entry(name, lab):
    return f"""  {name}:
    address: 127.0.0.1
    port: {lab.port}
    username: administrator@vsphere.local
    password: "file:{lab.directory / "password"}"
    tls: {{ca_file: "{lab.directory / "ca.pem"}"}}
"""


def changed(lab):
    return {e["object"] for e in lab.get("/lab/ledger")["entries"]}


def test_one_playbook_is_for_the_vcenter_that_is_chosen(cli, sites, both):
    playbook = cli.file(PLAY)
    assert cli("plan", playbook, "-i", both) == 65, "a play says neither"
    assert "--vcenter" in cli.err
    assert "berlin, munich" in cli.err
    for site in SITES:
        plan = cli.plan(playbook, "-i", both, "--vcenter", site)
        assert {i["target"]["name"] for i in plan["items"]} == {f"{site}-01", f"{site}-02"}
        assert plan["world"]["name"] == site
    assert cli("apply", playbook, "-i", both, "--vcenter", "munich", "--yes") == 0, cli.out + cli.err
    assert f"vCenter munich (127.0.0.1:{sites['munich'].port})" in cli.out
    assert (changed(sites["berlin"]), changed(sites["munich"])) == (set(), {"munich-01", "munich-02"})
    assert cli("verify", playbook, "-i", both, "--vcenter", "munich") == 0
    assert cli("verify", playbook, "-i", both, "--vcenter", "berlin") == 2
    assert cli("plan", playbook, "-i", both, "--vcenter", "hamburg") == 64
    assert "berlin, munich" in cli.err


def test_the_vcenter_is_in_whatever_a_run_leaves_and_no_password_is(cli, sites, both, tmp_path):
    """Saved plan, JSON lines, journal, `show` and reports: names, user and inventory file."""
    address = f"127.0.0.1:{sites['munich'].port}"
    world = {"name": "munich", "address": address, "user": "administrator@vsphere.local", "lab": False}
    playbook, saved = cli.file(PLAY), tmp_path / "plan.json"
    assert cli("plan", playbook, "-i", both, "--vcenter", "munich", "--to", saved) == 0, cli.err
    assert world.items() <= json.loads(saved.read_text("utf-8"))["world"].items()
    assert cli("apply", saved, "-i", both, "-o", "json") == 0, cli.err
    first, written = json.loads(cli.out.splitlines()[0]), cli.out
    assert world.items() <= first["world"].items()
    assert first["world"]["found"]
    assert cli("run", "show", first["run"], "-o", "json") == 0
    assert json.loads(cli.out)["world"] == first["world"]
    written += cli.out
    place = f"munich ({address}) as administrator@vsphere.local"
    for command in (("run", "show", first["run"]), ("run", "report", first["run"]), ("report", saved)):
        assert cli(*command) == 0
        assert place in cli.out
        written += cli.out
    password = (sites["munich"].directory / "password").read_text("utf-8").strip()
    journal = (state_dir() / "runs" / f"{first['run']}.db").read_bytes()
    assert b"administrator@vsphere.local" in journal
    assert len(password) > 5
    assert password not in written + saved.read_text("utf-8") + journal.decode("utf-8", "replace")


def test_plays_may_name_their_vcenter(cli, both):
    text = "- vms: berlin-01\n  vcenter: berlin\n  hardware: {version: 19}\n"
    playbook = cli.file(text + "- vms: munich-01\n  vcenter: munich\n  hardware: {version: 19}\n")
    assert cli("plan", playbook, "-i", both) == 64
    for site in SITES:
        assert {i["target"]["name"] for i in cli.plan(playbook, "-i", both, "--vcenter", site)["items"]} == {
            f"{site}-01"
        }


def test_a_saved_plan_of_one_is_refused_on_the_other(cli, sites, both, tmp_path):
    """Names of the one do not exist on the other: that is said of the vCenter, and not of each name."""
    saved = tmp_path / "plan.json"
    playbook = cli.file("- vms: berlin-[01:02]\n  hardware: {version: 19}\n")
    assert cli("plan", playbook, "-i", both, "--vcenter", "berlin", "--to", saved) == 0, cli.err
    other = cli.file(f"vcenters:\n{entry('berlin', sites['munich'])}", "munich.yml")
    for given in (("-i", both, "--vcenter", "munich"), ("-i", other)):
        assert cli("apply", saved, *given) == 3
        assert cli.error == "plan.other-vcenter"
        assert "'berlin'" in cli.err
    assert changed(sites["berlin"]) == changed(sites["munich"]) == set()
    assert cli("apply", saved, "-i", both) == 0, "its vCenter is in the plan"
    assert changed(sites["berlin"]) == {"berlin-01", "berlin-02"}


def test_runs_name_their_vcenter_and_are_continued_there_only(cli, sites, both):
    playbook = cli.file(PLAY)
    for site in SITES:
        assert cli("apply", playbook, "-i", both, "--vcenter", site, "--yes") == 0, cli.err
    assert cli("run", "list", "-o", "json") == 0
    runs = {run["vcenter"]: run["run"] for run in json.loads(cli.out)["runs"]}
    assert set(runs) == {"berlin", "munich"}
    for site in SITES:
        assert cli("rollback", runs[site], "-i", both, "--yes") in (0, 1), cli.err
        assert f"vCenter {site} (127.0.0.1:{sites[site].port})" in cli.out
    swapped = cli.file(f"vcenters:\n{entry('berlin', sites['munich'])}", "swapped.yml")
    assert cli("rollback", runs["berlin"], "-i", swapped, "--yes") == 3
    assert cli.error == "run.other-vcenter"


def test_runs_on_vcenters_of_one_name_are_kept_apart_by_address(cli, sites):
    for site in SITES:
        inventory = cli.file(f"vcenters:\n{entry('prod', sites[site])}", f"{site}.yml")
        assert cli("apply", cli.file(PLAY), "-i", inventory, "--yes") == 0, cli.err
    assert cli("run", "list") == 0
    assert [f"prod (127.0.0.1:{lab.port})" in cli.out for lab in sites.values()] == [True, True]


def test_trust_is_given_to_each_on_its_own(cli, sites):
    mixed = entry("berlin", sites["berlin"]).replace(
        str(sites["berlin"].directory / "ca.pem"), str(sites["munich"].directory / "ca.pem")
    )
    inventory = cli.file(f"vcenters:\n{mixed}{entry('munich', sites['munich'])}", "mixed.yml")
    playbook = cli.file(PLAY)
    assert cli("plan", playbook, "-i", inventory, "--vcenter", "berlin") == 4
    assert cli("plan", playbook, "-i", inventory, "--vcenter", "munich") == 0, cli.err
