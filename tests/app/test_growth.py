"""Growth of what commands compute of an estate, line by line, as one dimension of it doubles: no clock is looked at.

A line of the product that runs for each pair of things, hosts and VMs say, is found at a few dozens of them, however
little each run of it takes.
"""

from __future__ import annotations

import paramiko
import pytest
from support.dimensions import Dimensions, grows_faster, lines_run
from support.estates import made, wants

from vsphere_ai.addresses.leasing import all_leases, lease, release
from vsphere_ai.addresses.ledger_text import ledger_text, read_ledger
from vsphere_ai.addresses.pool import AddressPool
from vsphere_ai.addresses.request import NicRequest, PoolSettings, SetRequest
from vsphere_ai.app.gpus.gpu_capacity import uses_now
from vsphere_ai.app.watching.farm_readings import FarmState
from vsphere_ai.app.watching.farm_snapshot import FarmSnapshot, uses_and_paths
from vsphere_ai.compat import gate
from vsphere_ai.connect.secure_shell.hostkeys import HostKeys
from vsphere_ai.errors import Denied
from vsphere_ai.model.facts import Estate
from vsphere_ai.model.view import View
from vsphere_ai.model.world import World
from vsphere_ai.planning.export import acceptable, observed
from vsphere_ai.planning.observing import observe
from vsphere_ai.planning.play_groups import grouped_plays
from vsphere_ai.resources import kinds
from vsphere_ai.resources.host_graphics import HostGraphics
from vsphere_ai.resources.vm_hardware import VmHardware
from vsphere_ai.resources.vmkernel import VmkernelAdapters
from vsphere_ai.resources.vmkernel.adapter import VmkernelAdapter
from vsphere_ai.web.metrics import exposition

SMALLEST = {
    "clusters": 2,
    "hosts": 5,
    "gpu_hosts": 4,
    "vms": 5,
    "networks": 6,
    "adapters": 3,
    "vmknics": 5,
    "rules": 6,
    "pools": 6,
}
"""Of each dimension; doubled twice. Where a cluster is one more, all that it has is more, too."""


def planned(estate, wanted, rule=""):
    """Plan what can be carried out, but for problems of one rule."""
    plan = made(estate, wanted)
    assert {p.rule for p in plan.problems} <= {rule}
    assert plan.steps


def upgrades(estate):
    planned(estate, {vm: wants(VmHardware(version=19)) for vm in estate.vms})


def refusals(estate):
    """Every VM is refused for the same reason."""
    plan = made(estate, {vm: wants(VmHardware(version=23)) for vm in estate.vms})
    assert {p.target for p in plan.problems} == {*estate.vms}


def addresses(estate):
    """Every host gets a VMkernel adapter with an address of its own."""
    wanted = {}
    for number, host in enumerate(estate.hosts):
        cluster = estate.cluster_of(host.ref).name.removeprefix("c")
        adapter = VmkernelAdapter(address=f"10.77.{number // 250}.{number % 250 + 1}/8")
        wanted[host] = wants(VmkernelAdapters(adapters={f"net{cluster}-000": adapter}))
    planned(estate, wanted)


def reboots(estate):
    """Every host with GPUs reboots, and its VMs are off meanwhile."""
    hosts = [host for host in estate.hosts if host.name.startswith("gpu")]
    planned(estate, {host: wants(HostGraphics(default_type="shared")) for host in hosts}, "power.stranded")


def check(estate):
    assert gate.examine_all(View(estate, observe(estate, kinds())))


def metrics(estate):
    gpus, traces = uses_and_paths(estate)
    assert traces
    world = World("vc", "vc.example.com", "user", "inventory.yml", "here")
    snapshot = FarmSnapshot(world, estate.about, estate, gpus, traces, (), 1.0, 1.0, asked_hosts=False)
    exposition(FarmState(world, snapshot), [])


def show(estate):
    states, _ = observed(estate, (*estate.datacenters, *estate.hosts, *estate.vms), kinds())
    kept, _ = acceptable(states, estate)
    assert grouped_plays(kept)


COMMANDS = {
    "plan of upgrades": upgrades,
    "plan of refusals": refusals,
    "plan of addresses": addresses,
    "plan of reboots": reboots,
    "check": check,
    "capacity": uses_now,
    "metrics": metrics,
    "show": show,
}


@pytest.mark.parametrize("command", COMMANDS)
def test_no_line_runs_more_often_than_in_proportion_to_what_grows(command):
    run, found = COMMANDS[command], {}
    for dimension, size in SMALLEST.items():
        estates = [Dimensions(**{dimension: size * times}).estate() for times in (1, 2, 4)]
        work = [lambda e=e: run(Estate(e.about, dict(e.objects))) for e in estates]
        if faster := grows_faster(work):
            found[dimension] = faster
    assert not found


def leased(pools, vms):
    """Lease addresses of so many pools to so many VMs, and release them; the ledger is written and read between."""
    named = {
        f"p{n:03}": AddressPool(subnet=f"10.{n}.0.0/16", ranges=(f"10.{n}.0.1-10.{n}.3.250",)) for n in range(pools)
    }
    text = ""
    for n, name in enumerate(named):
        given = lease(
            read_ledger(text), PoolSettings(named, n), [SetRequest(f"s{n:03}", vms, (NicRequest("mgmt", (name,)),))]
        )
        assert not given.problems
        text = ledger_text(given.ledger)
    ledger = read_ledger(text)
    assert len(all_leases(ledger, named)) == pools * vms
    for n in range(pools):
        ledger = release(ledger, PoolSettings(named, 1_000 + n), f"s{n:03}")


def test_leases_cost_no_more_the_more_of_them_a_pool_holds():
    assert not grows_faster([lambda v=v: leased(2, v) for v in (40, 80, 160)])


def known(path, names, key, *, is_hashed=False):
    written = [paramiko.HostKeys.hash_host(name) if is_hashed else name for name in names]
    path.write_text("".join(f"{name} {key.get_name()} {key.get_base64()}\n" for name in written), "utf-8")
    return path


def log_in(path, names, key):
    for name in names:
        HostKeys(path).check("esx", name, 22, key)


def test_logins_to_as_many_hosts_as_are_known_read_the_file_once(tmp_path):
    key, work = paramiko.ECDSAKey.generate(), []
    for count in (40, 80, 160):
        names = [f"10.0.0.{n}" for n in range(count)]
        path = known(tmp_path / str(count), names, key)
        work.append(lambda path=path, names=names: log_in(path, names, key))
    assert not grows_faster(work)


def test_a_name_is_searched_once_among_hashed_ones(tmp_path):
    key, names = paramiko.ECDSAKey.generate(), [f"10.0.0.{n}" for n in range(100)]
    path = known(tmp_path / "known_hosts", names, key, is_hashed=True)
    searched = lines_run(lambda: log_in(path, names[:8], key)).total()
    again = lines_run(lambda: log_in(path, names[:8], key)).total()
    assert searched > 8 * len(names)
    assert again < searched / 4
    known(path, names[:8], paramiko.ECDSAKey.generate(), is_hashed=True)
    with pytest.raises(Denied, match="another host key"):
        log_in(path, names[:1], key)
