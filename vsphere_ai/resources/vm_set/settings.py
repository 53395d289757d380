"""Settings of a set of VMs as a playbook writes them: NICs and users of each VM."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from vsphere_ai.guests.ssh_key import public_key
from vsphere_ai.model.state import Settings, State, observed, setting
from vsphere_ai.resources._helpers.maximums import MOST_ADAPTERS
from vsphere_ai.resources.mixins import TagsVms
from vsphere_ai.resources.vm_set.other_words import OF_DISK, OF_NIC, OF_USER, OF_VM
from vsphere_ai.resources.vm_set.placement import SetPlacement, listed
from vsphere_ai.resources.vm_set.user_data import SetUserData, as_user_data
from vsphere_ai.security.secret_ref import require_reference

DHCP = "dhcp"
IN_THE_CLONE = ("vmxnet3",)
"""Types of NICs that the clone itself brings; the others come in the reconfigure after it."""
ONCE = (
    *("snapshot", "image_max_days", "linked", "cluster", "resource_pool", "folder", "datastore"),
    *("nics", "mac_prefix", "customize", "users", "user_data", "placement"),
)
"""Fields that only count when a VM is made."""
TagNames = Annotated[tuple[str, ...], BeforeValidator(listed), AfterValidator(lambda names: tuple(sorted(set(names))))]
"""Names of tags of one category, in the order of their names, each once."""
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,14}")


def _nic_name(text: str) -> str:
    if not _NAME.fullmatch(text):
        raise ValueError(f"'{text}' is no name of a network interface\nat most 15 letters, digits, '_', '-' and '.'")
    return text


def _public_key(text: str) -> str:
    public_key(text)
    return text.strip()


class SetNic(Settings):
    """A NIC of every VM of a set."""

    other_words = OF_NIC

    name: Annotated[str, AfterValidator(_nic_name)] = Field(description="Name of the interface in the guest.")
    port_group: str = Field(min_length=1, description="Port group by name, `SWITCH/NAME` or inventory path.")
    type: Literal["vmxnet3", "pvrdma", "sriov"] = Field(
        default="vmxnet3", description="Kind of adapter, `vmxnet3` where it is left out."
    )
    protocol: Literal["rocev1", "rocev2"] | None = setting("RoCE version of a `pvrdma` adapter.")
    role: Literal["mgmt", "storage", "rdma"] | None = setting("What its traffic is.")
    rail: int | None = setting("Number of its rail, for an RDMA network with several.", ge=0, le=63)
    mtu: int | None = setting("MTU of the interface in the guest.", ge=1280, le=9000)
    primary: bool | None = setting("`true` on one NIC of several: it has the default route.")
    addresses: Annotated[tuple[str, ...], BeforeValidator(listed)] | None = setting(
        "Address pools of the inventory, of each family the first with room; `auto`: those that fit by affinity or "
        "default; `dhcp`, which is what it means where it is left out."
    )
    spare: int | None = setting(
        "Addresses of pools that the set holds behind those of its VMs, so that it may grow without a gap.",
        ge=0,
        le=4096,
    )
    nameservers: Annotated[tuple[str, ...], BeforeValidator(listed)] | None = setting("Addresses of DNS servers.")
    search: Annotated[tuple[str, ...], BeforeValidator(listed)] | None = setting(
        "Domains that complete a short name; the first one is the guest's own under `linux_prep`."
    )
    shares: Literal["low", "normal", "high"] | int | None = setting("Shares under Network I/O Control.")
    limit: int | None = setting("Mbit/s it never exceeds under Network I/O Control.", ge=1)

    @property
    def pools(self) -> tuple[str, ...]:
        """The names of its address pools; none with DHCP."""
        return tuple(name for name in self.addresses or () if name != DHCP)

    def __str__(self) -> str:
        rail = f"rail {self.rail}" if self.rail is not None else ""
        more = (self.role or "", rail, f"MTU {self.mtu}" if self.mtu else "", "primary" if self.primary else "")
        words = ", ".join(filter(None, (*more, f"addresses {', '.join(self.addresses)}" if self.addresses else "DHCP")))
        return f"{self.name}: {self.type} on {self.port_group} ({words})"


class SetDisk(Settings):
    """A disk of every VM of a set: one of its template, by its number, or one that is added, by its name."""

    other_words = OF_DISK

    number: int | None = setting("Which disk of the template, counted from 1.", ge=1, le=60)
    name: str | None = setting("Name of a disk that is added.", pattern=r"^[a-z][a-z0-9_-]{0,30}$")
    gb: int = Field(ge=1, le=63_488, description="Size in GB; it only grows.")
    provisioning: Literal["thin", "thick", "eager"] | None = setting(
        "Of an added disk: thin, thick (zeroed when it is written to) or eager (zeroed at once); `thin` if left out."
    )
    controller: Literal["pvscsi", "nvme"] | None = setting("Of an added disk; `pvscsi` where it is left out.")
    datastore: str | None = setting("Of an added disk, by name; that of the VM where it is left out.", min_length=1)

    @model_validator(mode="after")
    def _one(self) -> SetDisk:
        if (self.number is None) == (self.name is None):
            raise ValueError(
                "a disk has either a 'number', of the template, or a 'name', and is added\ngive one of them"
            )
        if self.number is not None and (self.provisioning or self.controller or self.datastore):
            raise ValueError("of a disk of the template only the size is set\nleave the rest out, or give it a 'name'")
        return self

    @property
    def key(self) -> str:
        """What it is known by."""
        return self.name or str(self.number)

    @property
    def words(self) -> str:
        """What it is called in sentences."""
        return f"the disk '{self.name}'" if self.name else f"disk {self.number}"

    def __str__(self) -> str:
        more = (self.provisioning or "", self.controller or "", f"on {self.datastore}" if self.datastore else "")
        what = self.name or f"disk {self.number}"
        return " ".join(filter(None, (f"{what}: {self.gb} GB", *more)))


def _reference(text: object) -> object:
    return None if text is None else require_reference(text)


class SetUser(Settings):
    """An account in every guest of a set, which logs in over SSH by public keys only."""

    other_words = OF_USER

    name: str = Field(pattern=r"^[a-z_][a-z0-9_-]{0,31}$", description="Name of the account.")
    ssh_authorized_keys: tuple[Annotated[str, AfterValidator(_public_key)], ...] = Field(
        default=(), description="Public keys of SSH; at least one where there is no password."
    )
    password: Annotated[str, BeforeValidator(_reference)] | None = setting(
        "Where its password for the console is: a reference as in an inventory, such as `env:NAME` or `file:PATH`."
    )
    sudo: bool = Field(default=True, description="Whether it may become root without a password.")

    def __str__(self) -> str:
        many = len(self.ssh_authorized_keys)
        more = ", a password" if self.password else ""
        return f"{self.name} ({many} SSH key{'' if many == 1 else 's'}{more})"

    @model_validator(mode="after")
    def _can_log_in(self) -> Self:
        if not (self.ssh_authorized_keys or self.password):
            raise ValueError("the account could not log in\nadd 'ssh_authorized_keys', or a 'password'")
        return self


def _few(nics: tuple[SetNic, ...]) -> tuple[SetNic, ...]:
    if len(nics) > MOST_ADAPTERS:
        words = f"a VM has at most {MOST_ADAPTERS} network adapters in vSphere, and these are {len(nics)}"
        raise ValueError(f"{words}\nremove {len(nics) - MOST_ADAPTERS} of them")
    return nics


class VmSetFields(TagsVms, State):
    """What a play says of the VMs that it makes, and what is decided or read of each of them."""

    other_words = OF_VM

    name: str | None = setting("Name of the set; VMs carry it in their mark.", pattern=r"^[A-Za-z][A-Za-z0-9_-]{0,39}$")
    source: str | None = setting("Template, or VM that is off, that is cloned; by name or inventory path.")
    snapshot: str | None = setting("Snapshot of the source that is cloned.")
    image_max_days: int | None = setting("Days since the source was built, above which it is refused.", ge=1, le=3650)
    linked: bool | None = setting("`true`: disks are children of the snapshot's, or share the template's.")
    cluster: str | None = setting("Cluster in whose root resource pool the VMs are.")
    resource_pool: str | None = setting("Resource pool by name or inventory path, instead of `cluster`.")
    folder: str | None = setting(
        "VM folder by name, path (`ai/training`) or inventory path; that of the source where it is left out."
    )
    datastore: str | None = setting(
        "Datastore by name, or a datastore cluster: for each VM its datastore with the most space left; that of the "
        "source where it is left out."
    )
    cpus: int | None = setting("Number of virtual CPUs.", ge=1, le=768)
    memory_gb: int | None = setting("Memory in GB.", ge=1, le=24_560)
    disk_gb: int | None = setting("Size of the first disk in GB; it only grows.", ge=1, le=63_488)
    disks: tuple[SetDisk, ...] | None = setting("Sizes of further disks of the template, and disks that are added.")
    mac_prefix: str | None = setting(
        "First four bytes of MAC addresses, `00:50:56:00` to `00:50:56:3f`.", pattern=r"^00:50:56:[0-3][0-9a-fA-F]$"
    )
    notes: str | None = setting("Notes of the VM in the vSphere Client; an empty text removes them.")
    custom_attributes: Mapping[str, str] | None = setting(
        "Values of custom attributes by name, which are defined in vCenter; an empty text removes a value."
    )
    tags: Mapping[str, TagNames] | None = setting(
        "Category -> the one tag, or the tags, that the VM has of it; `[]`: none. Other categories stay as they are."
    )
    cdrom: Literal["none"] | None = setting("`none`: what is in the CD drives of the source is taken out.")
    guest_id: str | None = setting("Guest operating system, as vSphere calls it, e.g. `ubuntu64Guest`.")
    nics: Annotated[tuple[SetNic, ...], AfterValidator(_few)] | None = setting(
        "NICs of each VM, at most ten; those of the source are removed."
    )
    customize: Literal["cloud_init", "linux_prep"] | None = setting(
        "How guests get name and addresses: cloud-init, if left out, or vCenter, for images without cloud-init."
    )
    users: tuple[SetUser, ...] | None = setting("Accounts in the guest, with their public keys.")
    user_data: Annotated[SetUserData, BeforeValidator(as_user_data)] | None = setting(
        "What cloud-init does in every guest: a file of cloud-config beside the playbook, its text, or its keys."
    )
    placement: SetPlacement | None = setting("Rules of DRS for the VMs.")
    power_state: Literal["on", "off"] | None = setting("Whether the VMs run; `on` where it is left out.")
    index: int | None = observed("Place in the set, counted from 1.")
    host: str | None = observed("Host on which the VM is made.")
    addresses: Mapping[str, str] | None = observed("MAC address and addresses of each NIC.")
    guest: str | None = observed("What the guest is given.")
    ready: bool | None = observed("The guest has said that it is ready.")
    detached: tuple[str, ...] | None = observed("Files of disks that are detached first, and not destroyed.")
    adopted: str | None = observed("Instance UUID that the VM had before it was adopted.")
    files: tuple[str, ...] | None = observed("Files of its disks; none: the VM is destroyed with them.")

    @model_validator(mode="after")
    def _disks_differ(self) -> VmSetFields:
        keys = [d.key for d in self.disks or ()] + (["1"] if self.disk_gb else [])
        if twice := next((k for k in keys if keys.count(k) > 1), ""):
            raise ValueError(f"the disk {twice} is there twice\nkeep one of them")
        return self

    @property
    def destroyed(self) -> bool:
        """Whether this is the end of a VM."""
        return self.files == ()

    @property
    def by_vcenter(self) -> bool:
        """Whether vCenter customizes the guest (LinuxPrep), and not cloud-init."""
        return self.customize == "linux_prep"

    @property
    def made_of(self) -> str:
        """The source and its snapshot, in one text."""
        return f"{self.source or ''}@{self.snapshot}" if self.snapshot else self.source or ""

    def tag_categories(self) -> frozenset[str]:
        """Return the categories that the play names."""
        return frozenset(self.tags or ())
