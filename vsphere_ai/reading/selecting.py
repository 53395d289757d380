"""Facts for the conditions of selectors, read in bulk when a selector first asks for them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from vsphere_ai.connect.vcenter import VCenter
from vsphere_ai.gpu import models
from vsphere_ai.language.inventories.selected import ASKED, RECORD, Want
from vsphere_ai.model.facts import Facts

STATES = {"poweredOn": "on", "poweredOff": "off", "suspended": "suspended", "standBy": "standby"}
_FIELDS = ("Datacenter", "HostSystem", "VirtualMachine")
_POOLS = {"ResourcePool": ("name", "parent", "owner"), "VirtualMachine": ("resourcePool",)}


def with_answers(vcenter: VCenter, objects: Mapping[str, Facts], wants: Collection[Want]) -> Facts:
    """Return the record of an estate (see `selected`) with the answers to what is wanted.

    The number of requests does not depend on how many objects there are, but for their pages.
    """
    before = objects.get(RECORD, Facts(RECORD, {"name": RECORD}))
    found: dict[str, object] = {ASKED: frozenset(before.get(ASKED, ())) | frozenset(wants)}
    keys = {key for key, _ in wants}
    if "tag" in keys:
        tags = vcenter.read_tags(value for key, value in wants if key == "tag")
        known = {n: refs | before.get("tags", {}).get(n, frozenset()) for n, refs in tags.objects.items()}
        found |= {"categories": tags.categories, "tags": {**before.get("tags", {}), **known}}
    if "attribute" in keys:
        found |= _attributes(vcenter)
    if "pool" in keys:
        found |= _pools(vcenter, objects)
    if "power" in keys:
        found["power"] = {ref: STATES.get(str(f.get("runtime.powerState")), "") for ref, f in objects.items()}
    kinds = {kind for key, kind in wants if key == "gpu"}
    if kinds:
        found |= _gpus(vcenter, objects, kinds)
    return before.having(found)


def _attributes(vcenter: VCenter) -> dict[str, object]:
    manager = vcenter.service("customFieldsManager")
    read = vcenter.read_objects([manager], {"CustomFieldsManager": ("field",)}) if manager else {}
    fields = read[manager].get("field", ()) if manager in read else ()
    names = {int(field["key"]): str(field["name"]) for field in fields}
    values = vcenter.read({kind: ("customValue",) for kind in _FIELDS})
    own = {
        ref: {names[v["key"]]: str(v.get("value", "")) for v in facts.get("customValue", ()) if v["key"] in names}
        for ref, facts in values.items()
    }
    return {"attributes": tuple(sorted(set(names.values()))), "attribute": {ref: v for ref, v in own.items() if v}}


def _pools(vcenter: VCenter, objects: Mapping[str, Facts]) -> dict[str, object]:
    read = vcenter.read(_POOLS)
    pools = {ref: facts for ref, facts in read.items() if not ref.startswith("VirtualMachine:")}
    above = {ref: tuple(_up(ref, pools)) for ref in pools}
    paths = {}
    for ref, own in above.items():
        owner = objects.get(str(pools[ref].get("owner")))
        # the last one is the root pool of the cluster, which has a name of its own in every language
        names = [owner.name if owner else "", *(pools[each].name for each in reversed(own[:-1]))]
        paths[ref] = "/".join(names)
    vms = {ref: above.get(str(f.get("resourcePool")), ()) for ref, f in read.items() if ref not in pools}
    return {"pools": paths, "pool": vms}


def _up(ref: str, pools: Mapping[str, Facts]) -> Iterable[str]:
    seen: set[str] = set()
    while ref in pools and ref not in seen:
        seen.add(ref)
        yield ref
        ref = str(pools[ref].get("parent"))


def _gpus(vcenter: VCenter, objects: Mapping[str, Facts], kinds: Collection[str]) -> dict[str, object]:
    paths = {"HostSystem": ("hardware.pciDevice",)}
    paths |= {"VirtualMachine": ("config.hardware.device",)} if "vm" in kinds else {}
    read = vcenter.read(paths)
    hosts = {r: models.of_host(f.get("hardware.pciDevice", ())) for r, f in read.items() if r.startswith("HostSystem:")}
    found: dict[str, object] = {"gpu:host": hosts, "boards": models.all_names()}
    if "vm" in kinds:
        on = {ref: str(objects[ref].get("runtime.host")) for ref in read if ref in objects}
        found["gpu:vm"] = {
            ref: models.of_vm(facts.get("config.hardware.device", ())) or hosts.get(on.get(ref, ""), ())
            for ref, facts in read.items()
            if ref not in hosts
        }
    return found
