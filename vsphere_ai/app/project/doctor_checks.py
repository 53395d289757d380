"""Checks of what a run needs: libraries, files, names, certificates, clocks, hosts, drivers."""

from __future__ import annotations

import os
import platform
import re
import socket
import stat
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

from cryptography import x509

from vsphere_ai.app.estate.connection import EstateConnection, endpoint_of
from vsphere_ai.app.estate.scope import EstateScope
from vsphere_ai.app.project.dated_facts import fact_ages
from vsphere_ai.app.runs.account_privileges import place_needs, still_lacking
from vsphere_ai.app.runs.out_of_service import runs_among
from vsphere_ai.compat.gate import LOOK, rules
from vsphere_ai.connect import tls
from vsphere_ai.connect.secure_shell.hostkeys import HostKeys
from vsphere_ai.connect.service import is_running, locked_out
from vsphere_ai.errors import Denied, VsphereAiError
from vsphere_ai.gpu.devices import found_gpus
from vsphere_ai.model.estate import api_fields
from vsphere_ai.model.estate.malformed import evaluate
from vsphere_ai.model.facts import About, Estate, Facts
from vsphere_ai.model.finding import Finding, Subject, Verdict
from vsphere_ai.model.names.name_ranges import shell_word
from vsphere_ai.model.state import Target
from vsphere_ai.model.text import counted
from vsphere_ai.model.view import View
from vsphere_ai.planning.needed_facts import left_out
from vsphere_ai.planning.privileges import missing_privileges
from vsphere_ai.reading.collector import CollectorRequest, Depth, collect, left_running
from vsphere_ai.reading.host_calls import may_accelerate, should_query
from vsphere_ai.security.credentials import fetch
from vsphere_ai.security.file_ownership import gap

DISTRIBUTION = "vsphere-ai"
TIMEOUT = 10.0
SKEW_WARN, SKEW_FAIL = 5.0, 300.0
"""Seconds. Kerberos and SAML tokens of vCenter's single sign-on are refused beyond five minutes."""
EXPIRY_DAYS = 30
EVACUATION = "VgpuMMAutomationTimeoutSecs"
"""DRS option that lets vGPU VMs migrate when a host enters maintenance mode, from 7.0 Update 3f on (KB 88271)."""
NETWORK = ("config.network.rdmaDevice", "config.network.pnic")
DRIVER_RULE = "gpu.vib"
_REQUIREMENT = re.compile(r"(?P<name>[A-Za-z0-9_.-]+)\s*(?:>=\s*(?P<floor>[0-9.]+))?")


def examine(scope: EstateScope, connection: EstateConnection) -> Iterator[Finding]:
    """Yield every check, the cheap ones first; what needs a vCenter ends with the first reason why there is none."""
    yield from libraries()
    yield from fact_ages(datetime.now(UTC).date())
    own = inventory(scope)
    yield own
    yield from files(scope)
    if own.verdict != "pass":
        why = "others may have written the inventory, which says what programs are run and where passwords go"
        yield _area("vCenter", "unknown", f"the rest was not looked at: {why}")
        return
    yield from ssh_secret(scope)
    reachable = True
    for check in (*address(scope), *certificate(scope)):
        reachable = reachable and check.verdict != "fail"
        yield check
    if not reachable:
        yield _area("vCenter", "unknown", "the rest was not looked at: there is no trusted connection to the vCenter")
        return
    try:
        vcenter = connection.vcenter
    except VsphereAiError as error:
        yield _area("login", "fail", error.message, error.remedy)
        return
    about = vcenter.about
    yield _area("login", "pass", f"{scope.settings.username} is logged in")
    yield _area("vCenter", "pass", f"{about.name} {about.version} build {about.build}, API {about.api}")
    yield from library_of(about)
    yield clock(vcenter.now)
    yield tags(scope, connection)
    estate = read(scope, connection)
    yield from out_of_service(connection, estate)
    checks, estate = evaluate(estate, lambda e: [*hosts(scope, connection, e), *clusters(e)])
    yield from checks
    yield from (_area("answers", "unknown", line, LOOK) for line in left_out(estate))


def _area(area: str, verdict: Verdict, message: str, remedy: str = "") -> Finding:
    return Finding(Subject("area", area), f"doctor.{area.lower()}", verdict, message, remedy)


def _host(host: Facts, rule: str, verdict: Verdict, message: str, remedy: str = "") -> Finding:
    return Finding(Target("host", host.name, host.ref), f"doctor.{rule}", verdict, message, remedy)


def _cluster(cluster: Facts, verdict: Verdict, message: str, remedy: str = "") -> Finding:
    return Finding(Subject("cluster", cluster.name, cluster.ref), "doctor.drs", verdict, message, remedy)


def read(scope: EstateScope, connection: EstateConnection) -> Estate:
    """Read what is looked at of hosts and clusters; no host is logged in to."""
    paths = next(r for r in rules() if r.id == DRIVER_RULE).properties["HostSystem"]
    request = CollectorRequest(
        paths={"HostSystem": (*paths, *NETWORK), "ClusterComputeResource": ("name", "parent", "configurationEx")},
        choose=lambda estate: Depth(hosts=frozenset(t.ref for t in scope.limited(estate, estate.hosts))),
        worth=should_query,
        parallel=scope.options.parallel,
        progress=connection.progress,
    )
    return collect(connection.vcenter, None, request)


# -- this machine


def libraries() -> Iterator[Finding]:
    """Compare Python and the libraries with what this release needs."""
    yield _area("software", "pass", f"Python {platform.python_version()}, vsphere-ai {metadata.version(DISTRIBUTION)}")
    for requirement in metadata.requires(DISTRIBUTION) or ():
        text, _, marker = requirement.partition(";")
        found = _REQUIREMENT.match(text)
        if found is None or "extra" in marker:
            continue
        name, floor = found["name"], found["floor"] or "0"
        install = f"pip install '{text.strip()}'"
        try:
            version = metadata.version(name)
        except metadata.PackageNotFoundError:
            yield _area("software", "fail", f"{name} is not installed", install)
            continue
        old = _numbers(version) < _numbers(floor)
        words = f"{name} {version}" + (f" is older than {floor}" if old else "")
        yield _area("software", "fail" if old else "pass", words, install if old else "")


def library_of(about: About) -> Iterator[Finding]:
    """Say when vCenter offers a later API than the installed pyVmomi knows, and what that hides."""
    if about.offered_numbers <= about.api_numbers:
        return
    words = f"vCenter offers API {about.offered_api}; pyVmomi {metadata.version('pyvmomi')} knows up to {about.api}"
    hidden = [str(field) for field in api_fields.unseen(about)]
    if hidden:
        yield _area("vCenter", "warn", f"{words} and cannot see {', '.join(hidden)}", api_fields.UPDATE)
    else:
        yield _area("vCenter", "pass", f"{words}, which has everything this release uses")


def _numbers(version: str) -> tuple[int, ...]:
    found = re.match(r"\d+(?:\.\d+)*", version)
    parts = [int(n) for n in found[0].split(".")] if found else []
    while parts and parts[-1] == 0:
        parts.pop()
    return tuple(parts)


def inventory(scope: EstateScope) -> Finding:
    """Look whether others may have written the inventory; also one that was named, which every command takes."""
    path = scope.inventory.path
    try:
        unsafe = gap(path)
    except OSError as error:
        return _area("files", "fail", f"inventory {path}: {error.strerror}", "check its path")
    if unsafe is None:
        return _area("files", "pass", f"inventory {path}")
    where = "" if unsafe.path == path else f"{path}: "
    return _area("files", "fail", f"inventory {where}{unsafe.path} {unsafe.why}", unsafe.remedy)


def files(scope: EstateScope) -> Iterator[Finding]:
    """Look who may change the files that say whom to trust, and who may read those that hold secrets."""
    ssh = scope.inventory.ssh
    trusted = [("CA file", scope.settings.tls.ca_file)]
    secret = [("SSH key", ssh.key_file if ssh else None)]
    trusted.append(("known_hosts", ssh.known_hosts if ssh else None))
    for (what, name), forbidden in [*((t, 0o022) for t in trusted), *((s, 0o077) for s in secret)]:
        if name is None:
            continue
        path = Path(name)
        try:
            status = path.stat()
        except OSError as error:
            remedy = "vsphere-ai trust host PATTERN makes it" if what == "known_hosts" else "check its path"
            yield _area("files", "fail", f"{what} {path}: {error.strerror}", remedy)
            continue
        mode = stat.S_IMODE(status.st_mode)
        if mode & forbidden:
            verb = "read" if forbidden == 0o077 else "changed"
            remedy = f"chmod {'600' if forbidden == 0o077 else 'go-w'} {path}"
            yield _area("files", "fail", f"{what} {path} can be {verb} by others (mode {mode:03o})", remedy)
        elif status.st_uid not in (0, os.getuid()):
            yield _area("files", "warn", f"{what} {path} belongs to another user", "make it your own")
        else:
            yield _area("files", "pass", f"{what} {path}")


def ssh_secret(scope: EstateScope) -> Iterator[Finding]:
    """Fetch what the SSH login needs; a prompt is left for when it is needed."""
    ssh = scope.inventory.ssh
    if ssh is None:
        return  # said of each host that needs it
    for what, reference in (("password", ssh.password), ("key passphrase", ssh.key_passphrase)):
        if reference is None or reference.startswith("prompt:"):
            continue
        try:
            fetch(reference, scope.inventory.base, purpose=f"{what} of {ssh.username} on the ESXi hosts")
        except Denied as error:
            yield _area("SSH", "fail", f"{what}: {error.message}", error.remedy)
        else:
            yield _area("SSH", "pass", f"the {what} of {ssh.username} is there")


# -- vCenter


def address(scope: EstateScope) -> Iterator[Finding]:
    """Resolve the vCenter's name."""
    name, port = scope.settings.address, scope.settings.port
    try:
        found = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)
    except OSError as error:
        yield _area("address", "fail", f"{name}: {error.strerror}", "check the name in the inventory, and DNS")
        return
    numbers = sorted({str(entry[4][0]) for entry in found})
    yield _area("address", "pass", f"{name} is {', '.join(numbers)}")


def certificate(scope: EstateScope) -> Iterator[Finding]:
    """Check how the vCenter's certificate is verified and how long it is still valid, without a login."""
    endpoint = endpoint_of(scope.settings)
    how = "its pinned fingerprint" if endpoint.fingerprint else str(endpoint.ca_file or "the system's authorities")
    try:
        der = tls.fetch_certificate(endpoint, TIMEOUT)
        distrusted = tls.distrust(endpoint, TIMEOUT)
    except VsphereAiError as error:
        yield _area("certificate", "fail", error.message, error.remedy)
        return
    if distrusted is not None:
        remedy = f"compare it and trust it: vsphere-ai trust vcenter {scope.settings.name}"
        yield _area("certificate", "fail", distrusted.message, remedy)
        return
    yield _area("certificate", "pass", f"verified by {how}")
    try:
        end = x509.load_der_x509_certificate(der).not_valid_after_utc
    except ValueError:
        return
    days = (end - datetime.now(UTC)).days
    words = f"valid for {days} more days, until {end:%Y-%m-%d}"
    yield _area(
        "certificate", "warn" if days < EXPIRY_DAYS else "pass", words, "renew it" if days < EXPIRY_DAYS else ""
    )


def clock(now: Callable[[], datetime]) -> Finding:
    """Compare this machine's clock with vCenter's."""
    before = datetime.now(UTC)
    server = now()
    after = datetime.now(UTC)
    skew = (server - (before + (after - before) / 2)).total_seconds()
    size = abs(skew) - (after - before).total_seconds() / 2
    words = f"vCenter's clock is {abs(skew):.1f} s {'ahead of' if skew > 0 else 'behind'} this machine's"
    if size <= SKEW_WARN:
        return _area("clock", "pass", words)
    return _area("clock", "fail" if size > SKEW_FAIL else "warn", words, "let NTP set both clocks")


def tags(scope: EstateScope, connection: EstateConnection) -> Finding:
    """Read the categories of vSphere tags, which are elsewhere than all else; none fails where groups need them."""
    groups = (*scope.inventory.hosts.values(), *scope.inventory.vms.values())
    needed = [f"'{group.name}'" for group in groups if "tag=" in group.selector.text]
    missing_privileges: Verdict = "fail" if needed else "warn"
    of = f"group {', '.join(needed)} of the inventory" if needed else "a selector"
    try:
        count = connection.vcenter.tag_categories()
    except VsphereAiError as error:
        return _area("tags", missing_privileges, f"{error.message}; {of} by tag has an error", error.remedy)
    if count:
        number = f"{count} {'category' if count == 1 else 'categories'}"
        return _area("tags", "pass", f"vSphere tags can be read, of {number}")
    words = "the account sees no category of vSphere tags"
    if not needed:
        return _area("tags", "pass", words)
    remedy = "make the tags, or give the account a global permission with System.Read"
    return _area("tags", "fail", f"{words}, and {of} names some", remedy)


def out_of_service(connection: EstateConnection, estate: Estate) -> Iterator[Finding]:
    """Name what runs have out of service by what vCenter keeps of them, and look whether this account may write it."""
    runs = runs_among(connection.vcenter, estate.objects)
    for run in runs:
        verdict: Verdict = "pass" if run.works else "fail"
        yield from (_area("runs", verdict, line, "" if run.works else run.way_on) for line in run.lines())
    if not any(run.still or run.damage for run in runs):
        yield _area("runs", "pass", "no run has anything out of service by what vCenter keeps")
    needs = place_needs(connection.vcenter, estate)
    missing = still_lacking(missing_privileges(needs, connection.vcenter.missing_privileges), connection.vcenter)
    words = "; ".join(f"{n.privilege} on {n.name}" for n in sorted(missing))
    if words:
        text = f"the account lacks {words}, with which a run writes down what it has out of service"
        yield _area(
            "runs", "warn", text, "runs that take hosts or VMs out of service are refused; see docs/security.md"
        )


# -- hosts and clusters


def hosts(scope: EstateScope, connection: EstateConnection, estate: Estate) -> Iterator[Finding]:
    """Look at each host's connection, SSH service, lockdown mode, host key and NVIDIA driver."""
    stranger, left = _strangers(scope), {host.ref for host in left_running(connection.vcenter)}
    for target in scope.limited(estate, estate.hosts):
        facts = estate[target.ref]
        state = facts.get("runtime.connectionState")
        if state != "connected":
            yield _host(facts, "connection", "fail", f"vCenter reports it as {state}", "bring the host back")
            continue
        if facts.ref in left:
            words = "SSH runs because a command that was killed had started it to read"
            yield _host(facts, "ssh", "warn", words, f"stop it: {scope.stopping_ssh(facts.name)}")
        elif scope.inventory.ssh is not None:
            yield from _ssh(scope, facts)
        elif may_accelerate(facts):
            words = "the inventory has no ssh: section, and commands on this host (mig, reboots over SSH) need one"
            yield _host(facts, "ssh", "warn", words, "add ssh: {username: ..., password: ..., known_hosts: ...}")
        if stranger(facts.name):
            words = "its SSH host key is not known"
            yield _host(facts, "host-key", "warn", words, f"vsphere-ai trust host {shell_word(facts.name)}")
        yield from _driver(estate, facts)


def _strangers(scope: EstateScope) -> Callable[[str], bool]:
    """Return a function that returns whether SSH to a host of that name would meet an unknown host key."""
    ssh = scope.inventory.ssh
    if ssh is None:
        return lambda _: False
    keys = HostKeys(Path(ssh.known_hosts), may_be_absent=True)

    def is_stranger(name: str) -> bool:
        try:
            return not keys.known(name, *ssh.endpoint(name))
        except ValueError:  # a host added to vCenter under a name that is no address
            return True

    return is_stranger


def _ssh(scope: EstateScope, host: Facts) -> Iterator[Finding]:
    ssh = scope.inventory.ssh
    if (locked := locked_out(host, ssh.username if ssh else "")) is not None:
        on = f"lockdown mode is on ({host.get('config.lockdownMode')})"
        yield _host(host, "ssh", "warn", f"{on}, and commands are refused", locked.help)
        return
    running, start = is_running(host), ssh.start_service if ssh else "never"
    if running:
        yield _host(host, "ssh", "pass", "SSH runs")
    elif running is None:
        yield _host(host, "ssh", "unknown", "whether SSH runs cannot be seen", "the account may lack System.Read there")
    elif start == "never":
        yield _host(host, "ssh", "warn", "SSH is stopped, and the inventory forbids to start it", "mig cannot be read")
    else:
        who = "every command" if start == "always" else "apply, and commands with --start-ssh,"
        yield _host(host, "ssh", "pass", f"SSH is stopped; {who} may start it and stop it again")


def _driver(estate: Estate, host: Facts) -> Iterator[Finding]:
    gpus = found_gpus(host.get("hardware.pciDevice") or ())
    if not gpus:
        yield _host(host, "driver", "pass", "no NVIDIA GPU, so no driver is needed")
        return
    rule = next(r for r in rules() if r.id == DRIVER_RULE)
    target = next(t for t in estate.hosts if t.ref == host.ref)
    for finding in rule.check(target, View(estate)):
        yield replace(finding, message=f"{counted(len(gpus), 'GPU')}; {finding.message}")


def clusters(estate: Estate) -> Iterator[Finding]:
    """Report what happens to vGPU VMs when a host of a cluster with DRS enters maintenance mode."""
    for cluster in estate.of_type("ClusterComputeResource"):
        drs = (cluster.get("configurationEx") or {}).get("drsConfig") or {}
        if not drs.get("enabled"):
            yield _cluster(cluster, "pass", "DRS is off: VMs stay on their host unless the playbook stops them")
            continue
        options = {o["key"]: o.get("value") for o in drs.get("option") or ()}
        before = _numbers(estate.about.api) < (7, 0, 3)
        if EVACUATION in options and before:
            words = f"DRS option {EVACUATION} is set, but has no effect before 7.0 Update 3f"
            yield _cluster(cluster, "warn", words, "vGPU VMs have to be switched off: rolling: {evacuate: power_off}")
        elif EVACUATION in options:
            yield _cluster(cluster, "pass", f"DRS may migrate vGPU VMs ({EVACUATION} = {options[EVACUATION]})")
        else:
            words = (
                "DRS does not migrate vGPU VMs for maintenance before 8.0 U2; from 8.0 U1 on a run moves them itself "
                "with evacuate: vmotion"
            )
            yield _cluster(cluster, "pass", words)
