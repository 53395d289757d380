"""A few facts of some VMs, of a vCenter that answers: name, power, host, devices and settings, as each tool reads them.

Ansible and govc are measured where they are installed: ``ansible-playbook`` with the collection community.vmware, by
the path in ANSIBLE_PLAYBOOK or else in PATH, and ``govc`` in PATH. The requests are those that the lab has answered.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from common import ROOT, SIZES, Case, Figures, Row, Size, inside, process
from estates import Absent, Estate, go_program, lab, vcsim
from run import alone

FEW, MOST_BY_PROPERTIES = 50, 500
OURS, PYVMOMI, PROPERTIES = "vsphere-ai", "pyVmomi, PropertyCollector", "pyVmomi, property by property"
GOVMOMI, GOVC = "govmomi, PropertyCollector", "govc vm.info"
GUEST_INFO, VM_INFO = "Ansible, vmware_guest_info", "Ansible, vmware_vm_info"
PLAY = """\
- hosts: localhost
  gather_facts: false
  vars: {{ansible_python_interpreter: "{{{{ ansible_playbook_python }}}}"}}
  tasks:
    - community.vmware.{module}:
        hostname: 127.0.0.1
        port: {port}
        username: {user}
        password: "{{{{ lookup('env', 'BENCH_PASSWORD') }}}}"
        validate_certs: false
{rest}"""
ONE_BY_ONE = '        datacenter: DC0\n        name: "{{{{ item }}}}"\n      loop: {names}\n'


def ansible() -> Path:
    """Return `ansible-playbook` with the collection community.vmware; raise Absent without them."""
    program = os.environ.get("ANSIBLE_PLAYBOOK") or shutil.which("ansible-playbook")
    if not program:
        raise Absent("Ansible is not measured: there is no ansible-playbook")
    galaxy = Path(program).with_name("ansible-galaxy")
    found = subprocess.run([galaxy, "collection", "list", "community.vmware"], capture_output=True, text=True)
    if "community.vmware" not in found.stdout:
        raise Absent("Ansible is not measured: it has no collection community.vmware")
    return Path(program)


def _govc() -> str:
    found = shutil.which("govc")
    if not found:
        raise Absent("govc is not measured: it is not installed")
    return found


def names_of(estate: Estate, count: int) -> list[str]:
    """Return the names of the first VMs."""
    from vsphere_ai.connect.tls import Endpoint
    from vsphere_ai.connect.vcenter import VCenter

    at = Endpoint("127.0.0.1", estate.port, estate.username, estate.password, ca_file=estate.ca)
    with VCenter.connect(at, minimum="6.5") as vcenter:
        return sorted(facts.name for facts in vcenter.read({"VirtualMachine": ("name",)}).values())[:count]


def _by_ansible(estate: Estate, module: str, names: list[str]) -> Callable[[], Figures]:
    program = ansible()
    rest = ONE_BY_ONE.format(names=json.dumps(names)) if module == "vmware_guest_info" else ""
    play = estate.folder / f"{module}.yml"
    play.write_text(PLAY.format(module=module, port=estate.port, user=estate.username, rest=rest), "utf-8")
    env = {"BENCH_PASSWORD": estate.password, "ANSIBLE_LOCALHOST_WARNING": "false", "HOME": str(estate.folder)}
    return lambda: process([program, play], env)[0]


def _by_govc(estate: Estate, names: list[str]) -> Callable[[], Figures]:
    program = _govc()
    env = {
        "GOVC_URL": f"https://127.0.0.1:{estate.port}/sdk",
        "GOVC_USERNAME": estate.username,
        "GOVC_PASSWORD": estate.password,
        "GOVC_TLS_CA_CERTS": str(estate.ca),
        "GOVC_PERSIST_SESSION": "false",
    }
    return lambda: process([program, "vm.info", "-json", *names], env)[0]


def works(estate: Estate, count: int) -> dict[str, Callable[[], Figures]]:
    """Return what reads the facts of so many VMs, each as a function that does it once; what is absent is named."""
    at = [str(estate.port), estate.ca, estate.username, estate.password, str(count)]
    found: dict[str, Callable[[], Figures]] = {
        OURS: lambda: inside("readers.py", "ours", *at),
        PYVMOMI: lambda: inside("readers.py", "pyvmomi", *at),
    }
    if count <= MOST_BY_PROPERTIES:
        found[PROPERTIES] = lambda: inside("readers.py", "properties", *at)
    names = names_of(estate, count)
    others: dict[str, Callable[[], Callable[[], Figures]]] = {GOVMOMI: lambda: _by_govmomi(at)}
    if count <= FEW:
        others[GOVC] = lambda: _by_govc(estate, names)
    if count <= FEW and estate.name == "lab":  # vcsim closes the connection on what this module asks for
        others[GUEST_INFO] = lambda: _by_ansible(estate, "vmware_guest_info", names)
    if count == estate.size.vms <= MOST_BY_PROPERTIES:
        others[VM_INFO] = lambda: _by_ansible(estate, "vmware_vm_info", names)
    for who, make in others.items():
        try:
            found[who] = make()
        except Absent as absent:
            absent.report()
    return found


def _by_govmomi(at: list[str | Path]) -> Callable[[], Figures]:
    program = go_program("govmomi", ROOT / "bench" / "govmomi")

    def read() -> Figures:
        outer, printed = process([program, *at])
        return {"mib": outer["mib"], **json.loads(printed)}

    return read


def counted(estate: Estate, work: Callable[[], Figures]) -> Callable[[], Figures]:
    """Return a work whose figures have the requests that the server has answered, where it counts them."""

    def once() -> Figures:
        before = estate.requests()
        found = dict(work())
        after = estate.requests()
        return {**found, "requests": after - before} if after else found

    return once


def measure(size: Size, times: int) -> list[Row]:
    """Return the rows for 50 VMs of a larger estate, and for each VM of it, in the lab and in vcsim."""
    rows = []
    for start in (lab, vcsim):
        with tempfile.TemporaryDirectory(prefix="vsphere-ai-bench-") as name, contextlib.ExitStack() as stack:
            try:
                estate = stack.enter_context(start(size, Path(name)))
            except Absent as absent:
                absent.report()
                continue
            for count in sorted({min(FEW, size.vms), size.vms}):
                case = Case("peers", f"facts of {count:,} VMs, {estate.name}", size, roles={OURS: "ours"})
                each = {who: counted(estate, work) for who, work in works(estate, count).items()}
                slow = [who for who in each if who in (PROPERTIES, GUEST_INFO, VM_INFO) or size.vms > SIZES["M"].vms]
                rows += case.compare(each, times, slow)
    return rows


if __name__ == "__main__":
    alone(__doc__, measure)
