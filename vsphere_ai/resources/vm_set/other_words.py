"""Words of other tools for what a set of VMs has: what a play writes instead, said where one of them is an unknown key.

Sources: the Terraform resource vsphere_virtual_machine, vmware_guest of Ansible, `govc vm.clone` and `vm.create`,
New-VM and Set-VM of PowerCLI, and VirtualMachineConfigSpec of the API.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

_MEMORY = "write 'memory_gb', in GB: the number there is in MB"
_MACS = "MAC addresses follow from the set: leave it out, or write 'mac_prefix' in vm_set"
_HOST = "write 'placement: {hosts: [PATTERN]}'"
_EXTRA = "write 'tuning: {extra_config: {...}}' beside vm_set"
_RESERVED = "write 'hardware: {memory_reservation: full}' beside vm_set"
_FIRMWARE = "write 'hardware: {firmware: efi}' beside vm_set"
_PCI = "write 'vgpu: [...]' or 'pci_devices: [...]' beside vm_set"
_WAIT = "leave it out: a run waits until each guest is ready with every planned address"
_GROWS = "sizes only grow: leave it out"

_VM: Mapping[str, tuple[str, ...]] = {
    "source": ("template", "template_uuid", "template_name", "clone", "vm_template", "image", "source_vm"),
    "snapshot": ("snapshot_src", "snapshot_name", "reference_snapshot", "snapshot_id"),
    "linked": ("linked_clone", "link", "full_clone"),
    "cluster": ("cluster_name", "compute_cluster", "compute_cluster_id", "cluster_id"),
    "resource_pool": ("resource_pool_id", "resource_pool_name", "pool"),
    "folder": ("vm_folder", "folder_id", "location", "inventory_folder", "folder_name"),
    "datastore": (
        *("datastore_id", "datastore_cluster", "datastore_cluster_id", "ds", "datastore_name"),
        *("storage", "storage_pod"),
    ),
    "cpus": ("num_cpus", "num_cpu", "numcpu", "cpu", "vcpus", "vcpu", "cpu_count", "num_vcpus", "cpu_num"),
    "memory_gb": ("mem_gb", "memory_size_gb", "ram_gb"),
    "disk_gb": ("disk_size", "disk_size_gb", "size_gb", "root_disk_gb"),
    "disks": ("disk", "hard_disks", "extra_disks", "data_disks", "virtual_disks"),
    "notes": ("annotation", "annotations", "note", "description", "comment"),
    "custom_attributes": ("customvalues", "custom_values", "custom_fields", "custom_attribute", "attributes"),
    "tags": ("tag", "tag_ids", "tag_names", "vsphere_tags", "labels"),
    "cdrom": ("cd_rom", "cd", "cdroms", "cd_drive", "dvd", "dvd_drive"),
    "guest_id": ("guest_os", "guest", "guestid", "os_type", "guest_os_type"),
    "nics": (
        *("network_interface", "network_interfaces", "networks", "network", "net", "network_adapters"),
        *("interfaces", "network_name", "portgroup", "port_group", "ethernet"),
    ),
    "customize": ("customization", "customization_spec", "os_customization_spec", "guest_customization"),
    "users": ("user", "ssh_authorized_keys", "ssh_keys", "ssh_public_keys", "accounts"),
    "user_data": (
        *("userdata", "cloud_config", "cloud_init", "user_data_file", "guestinfo_userdata", "guestinfo.userdata"),
        *("vendor_data", "runcmd", "packages", "write_files", "bootcmd"),
    ),
    "placement": ("drs", "anti_affinity", "affinity", "drs_automation_level", "vm_host_rule", "anti_affinity_rule"),
    "power_state": ("state", "power", "powered_on", "power_on", "on", "poweron"),
    "mac_prefix": ("mac", "mac_range"),
}  # fmt: skip
_VM_SENTENCES: Mapping[str, tuple[str, ...]] = {
    "storage policies are not set by vsphere-ai: leave it out, and choose a 'datastore' that complies": (
        *("storage_policy", "storage_policy_id", "storage_profile", "spbm_profile", "profile", "vm_storage_policy"),
    ),
    _MEMORY: ("memory", "memory_mb", "mem", "mem_mb", "memory_size", "ram", "memorymb"),
    "write 'tuning: {cores_per_socket: N}' beside vm_set: it goes into the clone": (
        *("cores_per_socket", "num_cores_per_socket", "num_cpu_cores_per_socket", "numcorespersocket"),
        *("corespersocket", "cpu_cores_per_socket"),
    ),
    _EXTRA: ("extra_config", "extraconfig", "advanced_settings", "advanced_config"),
    _HOST: ("host", "hosts", "esxi_hostname", "host_system_id", "vmhost", "esxi_host", "hostname", "host_name"),
    _RESERVED: ("memory_reservation", "mem_reservation", "memory_reservation_locked_to_max", "mem_reserve"),
    "write 'hardware: {cpu_reservation_mhz: N}' beside vm_set": ("cpu_reservation", "cpu_reserve"),
    "write 'hardware: {version: N}' beside vm_set": ("hardware_version", "version", "vm_version", "hw_version"),
    _FIRMWARE: ("firmware", "boot_firmware", "efi", "efi_secure_boot_enabled"),
    "write 'tuning: {latency_sensitivity: high}' beside vm_set": ("latency_sensitivity", "latency"),
    "write 'tuning: {numa_affinity: gpu}' beside vm_set": ("numa_affinity", "numa_node_affinity", "numa"),
    _PCI: ("vgpu", "vgpus", "gpu", "gpus", "pci_device_id", "pci_devices", "shared_pci_device", "vgpu_profile"),
    "the play names the VMs by a range, such as 'vms: train-[01:04]'": ("count", "replicas", "names", "vm_name", "vms"),
    _WAIT: ("wait_for_guest_net_timeout", "wait_for_ip_address", "wait", "waitip", "wait_for_customization"),
    "write 'vcenter: NAME' beside vm_set, or name it in the inventory": (
        "datacenter",
        "datacenter_id",
        "dc",
        "vcenter",
    ),
    "give addresses by pools: 'nics: [{..., addresses: POOL}]'": (
        "ip",
        "ipv4_address",
        "ip_address",
        "netmask",
        "gateway",
    ),
}
_NIC: Mapping[str, tuple[str, ...]] = {
    "port_group": ("network", "network_id", "network_name", "net", "dvswitch_portgroup", "dvpg", "port_group_name"),
    "type": ("adapter_type", "device_type", "adapter", "net_adapter", "nic_type"),
    "name": ("label", "device", "interface", "ifname"),
    "addresses": ("ip", "ipv4_address", "ipv4", "ip_address", "address", "addr", "pool", "pools", "dhcp", "dhcp4"),
    "nameservers": ("dns", "dns_servers", "dns_server_list", "ipv4_dns"),
    "search": ("domain", "dns_suffix", "dns_suffix_list", "dns_search", "domains"),
    "protocol": ("device_protocol", "roce", "roce_version"),
    "limit": ("bandwidth_limit",),
    "shares": ("bandwidth_share_level", "bandwidth_share_count", "bandwidth_shares"),
    "primary": ("default_route", "default", "default_gateway"),
}  # fmt: skip
_NIC_SENTENCES: Mapping[str, tuple[str, ...]] = {
    _MACS: ("mac", "mac_address", "use_static_mac", "macaddress", "net_address"),
    "it belongs to the address pool in the inventory": ("gateway", "ipv4_gateway", "gateway4", "netmask"),
    "it belongs to the port group: 'port_groups' in a play for datacenters": ("vlan", "vlan_id"),
}
_DISK: Mapping[str, tuple[str, ...]] = {
    "gb": ("size", "size_gb", "capacity_gb", "capacity", "disk_gb", "capacitygb"),
    "name": ("label", "path"),
    "number": ("unit_number", "index", "unit"),
    "provisioning": ("thin_provisioned", "eagerly_scrub", "type", "storage_format", "disk_storage_format", "thin"),
    "controller": ("controller_type", "scsi_type", "scsi_controller", "bus"),
    "datastore": ("datastore_id", "ds"),
}  # fmt: skip
_DISK_SENTENCES: Mapping[str, tuple[str, ...]] = {
    "write 'gb', in GB: the number there is in MB or KB": ("size_mb", "size_kb", "capacity_kb", "capacity_mb"),
    _GROWS: ("keep_on_remove", "shrink"),
}
_USER: Mapping[str, tuple[str, ...]] = {
    "name": ("username", "user", "login"),
    "ssh_authorized_keys": ("ssh_keys", "public_keys", "authorized_keys", "ssh_key", "ssh_public_keys", "keys"),
    "password": ("passwd", "plain_text_passwd", "hashed_passwd", "password_hash"),
    "sudo": ("sudoer", "admin", "wheel"),
}  # fmt: skip


def _turned(keys: Mapping[str, tuple[str, ...]], sentences: Mapping[str, tuple[str, ...]]) -> Iterator[tuple[str, str]]:
    for key, words in keys.items():
        yield from ((word, f"write '{key}'") for word in words)
    for sentence, words in sentences.items():
        yield from ((word, sentence) for word in words)


OF_VM = dict(_turned(_VM, _VM_SENTENCES))
OF_NIC = dict(_turned(_NIC, _NIC_SENTENCES))
OF_DISK = dict(_turned(_DISK, _DISK_SENTENCES))
OF_USER = dict(_turned(_USER, {}))
"""Word of another tool, in small letters with ``_`` -> what to write here, as a help text."""
