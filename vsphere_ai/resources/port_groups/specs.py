"""Specs that make and change a port group."""

from __future__ import annotations

from vsphere_ai.fabric import dvs, nioc
from vsphere_ai.model.facts import Facts
from vsphere_ai.model.plain import PlainObject
from vsphere_ai.model.state import Change
from vsphere_ai.model.steps import Step
from vsphere_ai.resources._helpers.factories import invoke_on
from vsphere_ai.resources.port_groups import settings as port_settings
from vsphere_ai.resources.port_groups.group import CONFIG, PortGroupSettings, Security
from vsphere_ai.resources.port_groups.settings import MAC_MANAGEMENT

NEW_PORTS = 8  # of a port group that grows by itself


def create_step(change: Change, name: str, wanted: PortGroupSettings, switch: Facts) -> Step:
    """Return the step that adds a port group to its switch."""
    spec = {
        "_typeName": "DVPortgroupConfigSpec",
        "name": name,
        "type": "earlyBinding",
        "numPorts": NEW_PORTS,
        "autoExpand": True,
        "defaultPortConfig": port_config(wanted, PortGroupSettings(), None, switch),
        **pool_spec(wanted, PortGroupSettings(), switch),
    }
    tag = f"trunk {', '.join(wanted.trunk)}" if wanted.trunk else f"VLAN {wanted.vlan}"
    summary = f"create port group {name} on {switch.name} ({tag})"
    return invoke_on(change, switch.ref, "AddDVPortgroup_Task", {"spec": (spec,)}, summary)


def adjust_step(change: Change, group: Facts, wanted: PortGroupSettings, now: PortGroupSettings, switch: Facts) -> Step:
    """Return the step that sends the settings of a port group that differ."""
    config = port_config(wanted, now, group.get(CONFIG), switch)
    spec = {
        "_typeName": "DVPortgroupConfigSpec",
        "configVersion": group.get("config.configVersion", ""),
        **({"defaultPortConfig": config} if len(config) > 1 else {}),
        **pool_spec(wanted, now, switch),
    }
    changed = (n for n, value in wanted if value is not None and value != getattr(now, n))
    summary = f"set {', '.join(n.replace('_', ' ') for n in changed)} of {group.name}"
    return invoke_on(change, group.ref, "ReconfigureDVPortgroup_Task", {"spec": spec}, summary)


def pool_spec(wanted: PortGroupSettings, now: PortGroupSettings, switch: Facts) -> dict[str, str]:
    """Return the pool to put a port group into, where that is another than it is in."""
    if wanted.resource_pool in (None, now.resource_pool):
        return {}
    return {nioc.POOL_KEY.removeprefix("config."): nioc.pool_key(switch, str(wanted.resource_pool))}


def port_config(
    wanted: PortGroupSettings, now: PortGroupSettings, present: PlainObject | None, switch: Facts
) -> dict[str, object]:
    """Return the settings that differ; a policy is sent in full, with what stays as it was read."""
    present = present or {}
    made: dict[str, object] = {"_typeName": "VMwareDVSPortSetting"}
    if (wanted.vlan, wanted.trunk) != (now.vlan, now.trunk):
        made["vlan"] = port_settings.vlan_spec(wanted.vlan, wanted.trunk)
    order = (wanted.active_uplinks, wanted.standby_uplinks)
    moved = order[0] is not None and order != (now.active_uplinks, now.standby_uplinks)
    spread = wanted.teaming if wanted.teaming != now.teaming else None
    if moved or spread:
        made["uplinkTeamingPolicy"] = port_settings.teaming_policy(
            (wanted.active_uplinks or ()) if moved else None,
            wanted.standby_uplinks or (),
            spread,
            present.get("uplinkTeamingPolicy"),
        )
    if (wanted.security, wanted.mac_learning) != (now.security, now.mac_learning):
        allowed = {n: getattr(wanted.security or Security(), n) for n in Security.model_fields}
        old = dvs.is_older(dvs.version(switch), MAC_MANAGEMENT)
        made |= port_settings.guest_policy(allowed, wanted.mac_learning, present, old=old)
    return made
