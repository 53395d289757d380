"""Command lines of `k8s/`, carried out as they stand there: scheduler, worker and campaign, with their certificates."""

from __future__ import annotations

import pytest
from support import fleets
from support.dask_fleet import Cluster
from support.kubernetes_manifests import command_line, named, pods

from vsphere_ai import app

pytestmark = pytest.mark.lab


@pytest.fixture
def certificates(tmp_path):
    folder = tmp_path / "pki"
    app.make_certificates(app.CertificatesRequest(folder, ("scheduler", "worker-berlin", "coordinator")))
    return folder


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    monkeypatch.setattr(Cluster, "start_scheduler", lambda self: None)
    made = Cluster(tmp_path)
    yield made
    made.close()


def here(words, certificate, **places):
    """A command line with the files and addresses of this machine in the place of those of a pod."""
    files = {"/tls/ca.crt": "ca.pem", "/tls/tls.crt": f"{certificate}.pem", "/tls/tls.key": f"{certificate}.key"}
    found = []
    for word in words:
        if word in files:
            word = str(places["pki"] / files[word])
        for old, new in places["swapped"].items():
            word = word.replace(old, new)
        found.append(word)
    return found


def test_a_campaign_by_the_commands_of_the_manifests(cli, make_lab, certificates, cluster, tmp_path):
    lab = make_lab(fleets.scenario("berlin"))
    secret = tmp_path / "password"
    secret.write_text((lab.directory / "password").read_text("utf-8"), "utf-8")
    secret.chmod(0o440)  # as a Secret is mounted
    (text,) = named("ConfigMap", "inventory-berlin")["data"].values()
    more = (
        f"port: {lab.port}",
        f'tls: {{ca_file: "{lab.directory / "ca.pem"}"}}',
        "username: administrator@vsphere.local",
    )
    text = text.replace("vc.berlin.example.com", "127.0.0.1").replace("/secrets/vcenter/password", str(secret))
    text = text.replace("username: svc-ai@vsphere.local", "\n    ".join(more))
    inventory = cli.file(text, "inventory.yml")

    swapped = {"tls://0.0.0.0:8786": "tls://127.0.0.1:0"}
    dask, *words = here(command_line(pods()["Deployment/scheduler"]), "scheduler", pki=certificates, swapped=swapped)
    assert (dask, words[0]) == ("dask", "scheduler")
    scheduler = cluster.start("-m", "distributed.cli.dask_scheduler", *words[1:])
    address = scheduler.until(r"Scheduler at:\s+(tls://\S+)")[1]

    swapped = {"tls://scheduler:8786": address, "$(POD_NAME)": "berlin-0", "$(POD_IP)": "127.0.0.1"}
    swapped["/inventory/inventory.yml"] = str(inventory)
    _, *words = here(
        command_line(pods()["Deployment/worker-berlin"]), "worker-berlin", pki=certificates, swapped=swapped
    )
    state = tmp_path / "worker"
    state.mkdir(mode=0o700)
    worker = cluster.start("-m", "vsphere_ai", *words, env={"VSPHERE_AI_STATE_DIR": str(state)})
    worker.until("worker .* at tls://127.0.0.1")

    saved = tmp_path / "fleet.json"
    given = (str(certificates / f) for f in ("ca.pem", "coordinator.pem", "coordinator.key"))
    place = [w for pair in zip(("--tls-ca", "--tls-cert", "--tls-key"), given, strict=True) for w in pair]
    given = (cli.file(fleets.playbook(["berlin"])), "--vcenter", "berlin", "--executor", f"dask:{address}")
    assert cli("fleet", "plan", *given, *place, "--to", saved) == 0, cli.err
    swapped |= {"/plan/fleet.json": str(saved), "$(POD_IP):8788": "127.0.0.1"}
    _, *words = here(command_line(pods()["Job/campaign"]), "coordinator", pki=certificates, swapped={
        "$(POD_IP):8788": "127.0.0.1", **swapped})  # fmt: skip
    assert cli(*words) == 0, cli.out + cli.err
    assert fleets.effects(lab) == fleets.once("berlin")
