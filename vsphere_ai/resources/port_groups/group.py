"""One distributed port group, as a playbook states it and as it is read."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from vsphere_ai.fabric import dvs, networks, nioc
from vsphere_ai.fabric.dvs import is_uplink
from vsphere_ai.model.facts import Estate, Facts
from vsphere_ai.model.state import Settings, setting
from vsphere_ai.resources.port_groups import settings as port_settings

CONFIG = "config.defaultPortConfig"
Teaming = Literal[
    "loadbalance_srcid", "loadbalance_srcmac", "loadbalance_ip", "loadbalance_loadbased", "failover_explicit"
]
MOST_NAME = 80  # characters of a name in vSphere


def _key(text: str) -> str:
    """Return a name, ``SWITCH/NAME`` or a path; ValueError where the name is longer than vSphere takes."""
    if len(text.rpartition("/")[2]) > MOST_NAME:
        raise ValueError(f"a port group's name has at most {MOST_NAME} characters\nwrite a shorter one")
    return text


Name = Annotated[str, Field(min_length=1, max_length=MOST_NAME)]
Key = Annotated[str, Field(min_length=1), AfterValidator(_key)]


class Security(Settings):
    """What a port lets a VM do; what is left out stays as it is."""

    promiscuous: bool | None = setting("Ports may see all traffic of the port group.")
    mac_changes: bool | None = setting("A guest may change the MAC address it receives with.")
    forged_transmits: bool | None = setting("A guest may send with other MAC addresses.")

    def __str__(self) -> str:
        return ", ".join(f"{name} {'yes' if value else 'no'}" for name, value in self if value is not None)


class PortGroupSettings(Settings):
    """One distributed port group; what is left out stays as it is, or takes what its switch has on a new one."""

    switch: Name | None = setting("The distributed switch it is on; needed for a new one.")
    vlan: int | None = setting("VLAN id; 0 sends frames untagged.", ge=0, le=port_settings.LAST_VLAN)
    trunk: Annotated[tuple[str, ...], BeforeValidator(port_settings.ranges)] | None = setting(
        'VLANs passed to the guest tagged, e.g. `["100-199", 300]`.', min_length=1
    )
    active_uplinks: tuple[Name, ...] | None = setting(
        "Uplinks that carry traffic; exactly one for PVRDMA.", min_length=1
    )
    standby_uplinks: tuple[Name, ...] | None = setting("Uplinks that step in; every other uplink is unused.")
    teaming: Teaming | None = setting("How traffic is spread over several active uplinks.")
    security: Security | None = setting("Security policy of its ports.")
    mac_learning: bool | None = setting("Ports learn several MAC addresses, as nested hypervisors need.")

    resource_pool: Name | None = setting(
        "Network resource pool of its switch that its VMs reserve bandwidth of; `default` for none."
    )

    @model_validator(mode="after")
    def _one_kind_of_vlan(self) -> Self:
        if self.vlan is not None and self.trunk is not None:
            raise ValueError("a port group has one VLAN or a trunk\nkeep vlan or trunk")
        return self


def is_ours(estate: Estate, group: Facts) -> bool:
    """Return whether a port group is one for VMs and hosts, and not of NSX."""
    return not is_uplink(estate, group) and group.get("config.backingType") in (None, "standard")


def observed_group(facts: Facts, estate: Estate) -> PortGroupSettings:
    """Return a port group as it was read."""
    config, switch = facts.get(CONFIG, {}), dvs.switch_of(estate, facts)
    active, standby = dvs.order(config)
    vlan, trunk = port_settings.tags(config)
    return PortGroupSettings.model_construct(
        switch=switch.name if switch else None,
        vlan=vlan,
        trunk=trunk,
        active_uplinks=active or None,
        standby_uplinks=standby,
        teaming=port_settings.teaming(config),
        security=Security.model_construct(None, **port_settings.security(config)),
        mac_learning=port_settings.learns(config),
        resource_pool=nioc.pool_of(facts, switch),
    )


def meant(estate: Estate, datacenter: str, name: str, wanted: PortGroupSettings) -> networks.Meant:
    """Return the port groups that a key of a playbook may mean; `switch` beside it narrows them."""
    groups = networks.in_datacenter(estate, datacenter, name).networks
    groups = tuple(g for g in groups if g.ref.startswith(f"{dvs.PORT_GROUP}:"))
    own = tuple(g for g in groups if (s := dvs.switch_of(estate, g)) is not None and s.name == wanted.switch)
    return networks.Meant(name, own or groups)


def keyed(estate: Estate, datacenter: str, name: str, wanted: PortGroupSettings) -> tuple[str, PortGroupSettings]:
    """Return a port group under its label; a new one, ``SWITCH/NAME``, under its name and with its switch."""
    groups = meant(estate, datacenter, name, wanted)
    if groups.network is not None:
        return networks.label(estate, groups.network), wanted
    head, _, tail = name.rpartition("/")
    if not groups.networks and tail and dvs.switch_named(estate, datacenter, head) and wanted.switch in (None, head):
        return tail, wanted.model_copy(update={"switch": head})
    return name, wanted


def settled_group(wanted: PortGroupSettings, now: PortGroupSettings | None) -> PortGroupSettings:
    """Return wanted settings in full; those of a new port group take what its switch has."""
    if now is None:
        alone = wanted.vlan is None and wanted.trunk is None
        return wanted.model_copy(update={"vlan": 0} if alone else {})
    full: dict[str, object] = {}
    if wanted.vlan is not None or wanted.trunk is not None:
        full["vlan"], full["trunk"] = wanted.vlan, wanted.trunk
    active, standby = wanted.active_uplinks, wanted.standby_uplinks
    if active and standby is None:
        full["standby_uplinks"] = tuple(u for u in now.standby_uplinks or () if u not in active)
    if standby and active is None:
        full["active_uplinks"] = tuple(u for u in now.active_uplinks or () if u not in standby)
    if wanted.security:
        full["security"] = wanted.security.filled(now.security)
    return wanted.filled(now).model_copy(update=full)
