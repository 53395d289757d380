"""Mesh of one run: a key with which rank 0's node, or each, logs in to the others, and that is removed after it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vsphere_ai.app.training.node_program.processes import MARK
from vsphere_ai.connect.secure_shell.guest_ssh import GuestSettings
from vsphere_ai.errors import Denied
from vsphere_ai.model.names.written_names import host_address
from vsphere_ai.model.nodes import Node
from vsphere_ai.training.launch import RUNS, NodeFile
from vsphere_ai.training.launchers.mpi import CONFIG_FILE, KEY_FILE, KNOWN_HOSTS_FILE

_MARKED = rf"exec env {MARK}=%s \"$SHELL\" -c \"$SSH_ORIGINAL_COMMAND\""
"""What runs a command with the name of the run in its environment, which daemons of MPI hand on."""


@dataclass(frozen=True)
class Mesh:
    """What rank 0's node is given, and the line that every node adds to its `authorized_keys` for the run."""

    files: tuple[NodeFile, ...]
    line: str


def make_mesh(run: str, nodes: Sequence[Node], settings: GuestSettings, heads: Sequence[Node] = ()) -> Mesh:
    """Make a key for a run. `Denied` where the host key of a node is not among those that the inventory's file knows.

    The line allows commands only (`restrict`), and only from the addresses of the `heads`, else of rank 0's node. What
    is started through it carries the name of the run.
    """
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()).decode()
    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
    files = (
        NodeFile(KEY_FILE, private),
        NodeFile(KNOWN_HOSTS_FILE, _known_hosts(nodes, settings)),
        NodeFile(CONFIG_FILE, _config(run, nodes, settings)),
    )
    addresses = ",".join(_address(node) for node in heads or nodes[:1])
    return Mesh(files, f'restrict,from="{addresses}",command="{_MARKED % run}" {public} vsphere-ai:{run}')


def _address(node: Node) -> str:
    return host_address(f"address of the VM {node.vm}", node.address)


def _known_hosts(nodes: Sequence[Node], settings: GuestSettings) -> str:
    from vsphere_ai.connect.secure_shell.hostkeys import HostKeys

    known, lines = HostKeys(settings.known_hosts, "vsphere-ai trust guest"), []
    for node in nodes:
        at = settings.endpoint(node.vm, node.address)
        keys = known.known(node.vm, at.address, at.port)
        if not keys:
            raise Denied(f"the host key of {node.vm} is not known", "run: vsphere-ai trust guest", rule="ssh.host-key")
        name = _address(node) if settings.port == 22 else f"[{_address(node)}]:{settings.port}"
        lines += [f"{name} {kind} {key.get_base64()}\n" for kind, key in keys.items() if not known.is_revoked(key)]
    return "".join(lines)


def _config(run: str, nodes: Sequence[Node], settings: GuestSettings) -> str:
    folder = f"{RUNS}/{run}"
    return f"""Host {" ".join(map(_address, nodes))}
    Port {settings.port}
    User {settings.username}
    IdentityFile {folder}/{KEY_FILE}
    IdentitiesOnly yes
    UserKnownHostsFile {folder}/{KNOWN_HOSTS_FILE}
    GlobalKnownHostsFile none
    StrictHostKeyChecking yes
    BatchMode yes
    LogLevel ERROR
"""
