"""Connections to the shells of hosts, as an inventory says how to reach them."""

from __future__ import annotations

from pathlib import Path

from vsphere_ai.connect.gate import LoginGate
from vsphere_ai.connect.secure_shell.ssh_endpoint import SshEndpoint
from vsphere_ai.connect.secure_shell.ssh_pool import SshPool
from vsphere_ai.errors import Unreachable
from vsphere_ai.language.inventories.inventory import Inventory
from vsphere_ai.model.state import Target
from vsphere_ai.security.credentials import fetch


def shells_of(inventory: Inventory) -> SshPool | None:
    """Return the (still closed) connections to hosts; None where the inventory has no `ssh:` section.

    `Denied` when the password, or the passphrase of the key, cannot be had.
    """
    ssh = inventory.ssh
    if ssh is None:
        return None
    gate = LoginGate()  # one refused credential is not tried on the next host: accounts lock after five failures
    base, purpose = inventory.base, f"SSH password of {ssh.username}"
    password = fetch(ssh.password, base, purpose=purpose).reveal() if ssh.password else None
    unlock = ssh.key_passphrase
    passphrase = fetch(unlock, base, purpose=f"passphrase of {ssh.key_file}").reveal() if unlock else None

    def endpoint(host: Target) -> SshEndpoint:
        try:
            address, port = ssh.endpoint(host.name)
        except ValueError as error:  # vCenter takes a host by any name; this is about one host only
            why = str(error).partition("\n")[0]
            help = "say where it is reached, in the inventory: ssh: {addresses: {HOST: ADDRESS}}"
            raise Unreachable(f"{host.name} cannot be reached over SSH by its name: {why}", help) from None
        key = Path(ssh.key_file) if ssh.key_file else None
        known = Path(ssh.known_hosts)
        return SshEndpoint(host.name, address, port, ssh.username, known, password, key, passphrase)

    return SshPool(endpoint, gate)
