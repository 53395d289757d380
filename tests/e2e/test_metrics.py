"""`vsphere-ai serve --once`: metrics for Prometheus, the file for node_exporter, and days without vCenter."""

from __future__ import annotations

import builtins
import os
import sys
from dataclasses import replace
from grp import getgrgid

import pytest
from prometheus_client.parser import text_string_to_metric_families
from support.places import INVENTORY, PLAYBOOKS, ROOT

from vsphere_ai import app
from vsphere_ai.connect import vcenter
from vsphere_ai.errors import Denied, UsageError
from vsphere_ai.web.metrics import write_textfile

pytestmark = pytest.mark.lab
PLAYBOOK = PLAYBOOKS / "ai-ready-cluster.yml"


def families(text):
    return {family.name: family for family in text_string_to_metric_families(text)}


def value(text, name, **labels):
    found = [s.value for f in families(text).values() for s in f.samples if s.name == name and s.labels == labels]
    assert len(found) == 1, (name, labels, found)
    return found[0]


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(vcenter, "DEFAULTS", replace(vcenter.DEFAULTS, patience=0.3, backoff=0.1, longest_pause=0.1))


def metrics(cli, *more):
    return cli("serve", "--once", "-i", INVENTORY, *more)


def test_capacity_drift_and_runs_before_and_after_a_run(cli):
    assert metrics(cli, PLAYBOOK) == 0
    assert value(cli.out, "vsphere_ai_drift_changes", playbook=str(PLAYBOOK)) > 0
    assert value(cli.out, "vsphere_ai_runs", state="finished") == 0
    assert cli("apply", PLAYBOOK, "--yes") == 0
    assert metrics(cli, PLAYBOOK, "--ssh") == 0
    assert value(cli.out, "vsphere_ai_drift_changes", playbook=str(PLAYBOOK)) == 0
    assert value(cli.out, "vsphere_ai_drift_known", playbook=str(PLAYBOOK)) == 1
    assert value(cli.out, "vsphere_ai_runs", state="finished") == 1
    assert value(cli.out, "vsphere_ai_up") == 1
    own = {"cluster": "gpu-a", "host": "esx02.lab.local", "board": "a100-40gb"}
    used, free = (value(cli.out, f"vsphere_ai_gpu_slices_{name}", **own) for name in ("used", "free"))
    assert used + free == value(cli.out, "vsphere_ai_gpu_slices", **own) == 16
    assert value(cli.out, "vsphere_ai_gpus", **own, mode="mig") == 2
    assert value(cli.out, "vsphere_ai_rdma_paths", state="healthy") == 4
    assert not any("train-" in str(s.labels) for f in families(cli.out).values() for s in f.samples)


def test_every_metric_is_in_the_documentation_and_back(cli):
    assert cli("apply", PLAYBOOK, "--yes") == 0
    assert metrics(cli, PLAYBOOK) == 0
    page = (ROOT / "docs" / "serve.md").read_text("utf-8")
    for family in families(cli.out).values():
        stem, words = family.name.removesuffix("_total"), family.name.split("_")
        tails = (f"`_{'_'.join(words[-n:])}`" for n in (1, 2))  # "`vsphere_ai_gpu_slices`, `_used`"
        known = f"`{stem}" in page or any(tail in page for tail in tails)
        assert known, family.name


def test_a_file_for_node_exporter_is_whole_and_private(cli, tmp_path):
    path = tmp_path / "farm.prom"
    path.write_text("old", encoding="utf-8")
    before = path.stat().st_ino
    assert metrics(cli, "--to", path) == 0
    assert cli.out == ""
    assert value(path.read_text("utf-8"), "vsphere_ai_up") == 1
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.stat().st_ino != before  # put in its place, not written over
    assert [each.name for each in tmp_path.glob("*farm.prom*")] == ["farm.prom"]


def test_a_group_may_read_the_file_for_node_exporter(tmp_path):
    path, own = tmp_path / "farm.prom", getgrgid(os.getgid()).gr_name
    write_textfile(path, b"x 1\n", own)
    assert (path.stat().st_mode & 0o777, path.stat().st_gid) == (0o640, os.getgid())
    with pytest.raises(UsageError, match="no group 'nobody-has-this'"):
        write_textfile(path, b"x 2\n", "nobody-has-this")
    assert path.read_bytes() == b"x 1\n"


def test_a_file_that_cannot_be_written(tmp_path):
    for path in (tmp_path / "no-folder" / "x.prom", tmp_path):
        with pytest.raises(UsageError) as raised:
            write_textfile(path, b"x")
        assert raised.value.rule == "usage.output"
        assert str(path) in raised.value.message
    link = tmp_path / "link.prom"
    link.symlink_to("/etc/passwd")
    with pytest.raises(UsageError):
        write_textfile(link, b"x")
    assert [each.name for each in tmp_path.iterdir() if each.name.startswith(".")] == []


def test_while_vcenter_is_not_read_up_is_0_and_the_exit_code_says_so(cli, lab, impatient, tmp_path):
    path = tmp_path / "farm.prom"
    assert metrics(cli, "--to", path) == 0
    lab.set_faults([{"on": "RetrievePropertiesEx", "do": 503}])
    assert metrics(cli, "--to", path) == 5
    assert value(path.read_text("utf-8"), "vsphere_ai_up") == 0
    assert value(path.read_text("utf-8"), "vsphere_ai_readings_total", outcome="failed") == 1
    lab.set_faults([{"on": "Login", "do": {"fault": "InvalidLogin"}}])
    assert metrics(cli, "--to", path) == 4
    assert value(path.read_text("utf-8"), "vsphere_ai_up") == 0


def test_a_reader_keeps_the_last_reading_renews_a_session_and_stops_at_a_refused_login(lab, impatient):
    request = app.FarmRequest(app.EstateRequest(INVENTORY, ask_hosts=False))
    with app.farm_reader(request, 0.0) as reader:
        reader.read()
        first = reader.state
        assert (first.readings, first.error) == (1, None)
        lab.set_faults([{"on": method, "do": 503} for method in ("RetrievePropertiesEx", "WaitForUpdatesEx")])
        reader.read()
        failed = reader.state
        assert failed.snapshot is first.snapshot
        assert (failed.error.exit_code, failed.failures, failed.ended) == (5, 1, False)
        assert failed.age(first.snapshot.taken + 7) == 7
        lab.clear_faults()
        lab.post("/lab/sessions/expire")
        reader.read()
        assert (reader.state.error, reader.state.readings) == (None, 2)
        assert reader.state.snapshot is not first.snapshot
        lab.set_faults([{"on": "Login", "do": {"fault": "InvalidLogin"}}])
        lab.post("/lab/sessions/expire")
        reader.read()
        assert isinstance(reader.state.error, Denied)
        assert reader.state.ended


def test_without_the_extra_the_error_names_it(cli, monkeypatch):
    real = builtins.__import__

    def absent(name, *rest):
        if name.partition(".")[0] == "prometheus_client":
            raise ModuleNotFoundError("no module", name=name)
        return real(name, *rest)

    for name in [m for m in sys.modules if m.startswith(("prometheus_client", "vsphere_ai.web"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(builtins, "__import__", absent)
    for words in (("serve", "--once"), ("serve",)):
        assert cli(*words, "-i", INVENTORY) == 64
        assert cli.error == "usage.extra"
        assert "prometheus-client starlette uvicorn" in cli.err


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (("--to", "m.prom"), "--to is for --once"),
        (("--group", "adm"), "--group is for --once"),
        (("--once", "--group", "adm"), "--group is for the file of --to"),
        (("--once", "--port", "9437"), "--port is for the server"),
        (("--once", "--interval", "60"), "--interval is for the server"),
    ],
)
def test_an_option_without_effect_is_refused(cli, words, option):
    assert cli("serve", "-i", INVENTORY, *words) == 64
    assert option in cli.err
