"""What `show` writes is a playbook that `plan` takes and finds nothing to do for; what is left out is named."""

from __future__ import annotations

import json
import re

import pytest
import yaml
from support.seeds import cases, chance

from vsphere_ai.connect.wire.answers import PlainResponse
from vsphere_ai.language.inventories.patterns import expand

pytestmark = pytest.mark.lab
GPU = {"board": "a100-40gb", "device_id": "20f1"}


def farm(dice, least=0):
    """A small farm drawn by chance: switches, port groups, hosts with and without GPUs and RDMA NICs, VMs."""
    switches = [
        {
            "name": f"dvs {n}", "mtu": str(dice.choice([1500, 9000, 1280])), "uplinks": str(dice.randint(1, 3)),
            "port_groups": [
                {"name": f"pg {n}.{i}", "vlan": str(dice.choice([0, 5, 4094]))} for i in range(dice.randint(1, 2))
            ],
        }
        for n in range(dice.randint(1, 2))
    ]  # fmt: skip
    hosts = []
    for n in range(dice.randint(1, 3)):
        nics = [
            {"name": f"vmnic{i}", "pci": f"0000:{0x18 + i:02x}:00.0", "switch": s["name"]} | rdma(dice, i)
            for i, s in enumerate(switches)
        ]
        gpus = [
            {"pci": f"0000:{0x3b + i:02x}:00.0", "graphics_type": dice.choice(["shared", "sharedDirect"]), **GPU,
             "mig": str(dice.random() < 0.5).lower()}
            for i in range(dice.choice([0, 0, 1, 2]))
        ]  # fmt: skip
        driver = {"nvidia_driver": "470.256.02"} if gpus else {}
        vmk = [{"name": "vmk0", "port_group": switches[0]["port_groups"][0]["name"]}] if dice.random() < 0.7 else []
        ssh = {"running": str(dice.random() < 0.6).lower(), "policy": "on"}
        host = {"name": f"esx{n}.lab.local", "cluster": "c", "nics": nics, "gpus": gpus, "vmkernel": vmk, "ssh": ssh}
        hosts.append(host | driver)
    vms = [
        {"name": dice.choice(["vm", "a, b", "*", "ü"]) + str(n), "host": f"esx{dice.randrange(len(hosts))}.lab.local",
         "network": dice.choice(switches)["port_groups"][0]["name"], "power": dice.choice(["on", "off"])}
        for n in range(dice.randint(least, 3))
    ]  # fmt: skip
    base = {"name": "drawn", "timing": {"task_seconds": "0.005"}, "clusters": [{"name": "c"}]}
    return yaml.safe_dump({**base, "switches": switches, "hosts": hosts, "vms": vms})


def rdma(dice, number):
    return {"model": "ConnectX-6", "rdma": f"vmrdma{number}"} if dice.random() < 0.5 else {}


ODDITIES = {
    "as it is": (b"", b""),
    "a switch that shows no MTU": (rb"(<maxMtu>)\d+", rb"\g<1>0"),
    "uplink port groups that do not say so": (rb"<propSet><name>config.uplink</name>.*?</propSet>", b""),
    "a VMkernel adapter with a tiny MTU": (rb"(<spec>(?:(?!</spec>).)*<mtu>)\d+", rb"\g<1>68"),
    "an unknown speed": (rb"<speedMb>\d+</speedMb>", b"<speedMb>17</speedMb>"),
    "a VLAN beyond any": (rb"(<vlanId>)\d+", rb"\g<1>4097"),
    "a negative reservation": (rb"(<reservation>)\d+", rb"\g<1>-1"),
    "an old hardware version": (rb">vmx-\d+<", b">vmx-03<"),
    "a teaming of its own": (rb"loadbalance_srcid", b"loadbalance_mine"),
}


@pytest.mark.parametrize("number", cases(3, 40))
def test_planning_what_was_shown_is_empty(cli, make_lab, monkeypatch, number):
    dice = chance("show", number)
    lab = make_lab(farm(dice))
    monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(lab.directory))
    ssh = dice.choice([(), ("--start-ssh",)])
    whole = judge(cli, ssh)
    for pattern in patterns(whole, dice):
        judge(cli, ssh, pattern, whole)


@pytest.mark.parametrize("what", ODDITIES)
def test_it_is_where_vcenter_shows_odd_values(cli, make_lab, monkeypatch, what):
    lab = make_lab(farm(chance("odd", 5), least=2))
    monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(lab.directory))
    real, (pattern, instead) = PlainResponse._whole, ODDITIES[what]
    seen = []

    def whole(self):
        body, count = re.subn(pattern, instead, real(self), flags=re.DOTALL)
        seen.append(count)
        return body

    if pattern:
        monkeypatch.setattr(PlainResponse, "_whole", whole)
    whole = judge(cli, ("--start-ssh",))
    assert sum(seen) or not pattern, "nothing was odd"
    for chosen in patterns(whole, chance("odd patterns", 1)):
        judge(cli, ("--start-ssh",), chosen, whole)


def test_it_is_with_a_host_without_a_connection(cli, monkeypatch):
    real = PlainResponse._whole
    gone = rb'(>esx03\.lab\.local</val>(?:(?!</objects>).)*?HostSystemConnectionState">)connected'
    monkeypatch.setattr(
        PlainResponse, "_whole", lambda self: re.sub(gone, rb"\1notResponding", real(self), flags=re.DOTALL)
    )
    judge(cli, ())


def test_what_is_left_out_is_named(cli, monkeypatch):
    real = PlainResponse._whole
    monkeypatch.setattr(PlainResponse, "_whole", lambda self: re.sub(rb"(<maxMtu>)\d+", rb"\g<1>0", real(self)))
    assert cli("show") == 0
    said = cli.out.partition("\n# DC0: ")[2].partition("\n\n")[0].replace("\n#   ", " ")
    assert all(f"switches {name} mtu" in said for name in ("dvs-lan", "dvs-rdma"))
    assert "mtu: 0" not in cli.out
    switch = plays(cli.out)["datacenters", "DC0"]["switches"]["dvs-rdma"]
    assert (switch["version"], switch["uplinks"]) == ("7.0.2", ["Uplink 1"]), "the rest of the switch is there"


def plays(shown):
    """What was shown of each target: its kinds by its name, or its reference where the name means something else."""
    found = {}
    for play in yaml.safe_load(shown) or ():
        play.pop("name", "")
        (by,) = {"datacenters", "hosts", "vms"} & play.keys()
        given = play.pop(by)
        for name in [name for term in ([given] if isinstance(given, str) else given) for name in expand(term)]:
            own = {kind: of_host(value, name) for kind, value in play.items()}
            assert not own.keys() & found.get((by, name), {}).keys(), "each setting of a target is stated once"
            found.setdefault((by, name), {}).update(own)
    return found


def of_host(value, host):
    """A setting as it is of one host: a mapping of hosts to addresses is the address of this one."""
    if not isinstance(value, dict):
        return value
    named = {
        key: each.get(host, each) if key == "address" and isinstance(each, dict) else each
        for key, each in value.items()
    }
    return {key: of_host(each, host) for key, each in named.items()}


def patterns(whole, dice):
    """One target of each type, all of it, and a part of it."""
    names = sorted(plays(whole))
    ones = [dice.choice([n for t, n in names if t == type_]) for type_ in {t for t, _ in names}]
    return [*sorted(ones), "*", "esx*", "vm*"] if any(n.startswith("vm") for _, n in names) else [*ones, "*", "esx0*"]


def judge(cli, ssh, pattern="", whole=""):
    """Show, and plan what was shown: nothing to do. Of a part there is shown what `whole` shows of it."""
    assert cli("show", *((pattern,) if pattern else ()), *ssh) == 0, cli.err
    shown = cli.out
    assert "- datacenters: " in shown or "left out" in shown or pattern
    assert [line for line in shown.splitlines() if len(line) > 100] == []
    groups = [name for play in plays(shown).values() for name in play.get("port_groups", ())]
    assert not [name for name in groups if name.endswith("-DVUplinks")], "a switch brings these by itself"
    playbook = cli.file(shown)
    assert cli("plan", playbook, "-o", "json", "--detailed-exitcode", *ssh) == 0, shown + cli.out + cli.err
    document = json.loads(cli.out)
    assert document["steps"] == document["problems"] == []
    if pattern:
        assert plays(shown), pattern
        assert plays(shown).items() <= plays(whole).items(), pattern
    return shown
