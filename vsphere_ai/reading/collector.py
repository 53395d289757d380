"""Reads the estate: lightly everywhere, then deeply where it matters, then the hosts' shells; in bulk, always."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType

from vsphere_ai.connect import service
from vsphere_ai.connect.probing import Prober, Shells
from vsphere_ai.connect.vcenter import VCenter
from vsphere_ai.errors import Denied, StepFailed, Unparsed, VimFault
from vsphere_ai.language.inventories.selected import RECORD, Want
from vsphere_ai.language.inventories.selectors import Unread
from vsphere_ai.model.estate import lockdown
from vsphere_ai.model.estate.maintenance import TASK_PATHS, TASKS
from vsphere_ai.model.estate.malformed import evaluate
from vsphere_ai.model.facts import UNTYPED, Estate, Facts
from vsphere_ai.model.plain import Plain, objects
from vsphere_ai.model.steps import Probe, Query
from vsphere_ai.reading.host_calls import OPTION, QUERY, SOFTWARE, is_call
from vsphere_ai.reading.probe_memory import ProbeMemory
from vsphere_ai.reading.selecting import with_answers
from vsphere_ai.runs import ssh_markers

_NAMED = ("name", "parent")
LIGHT: Mapping[str, tuple[str, ...]] = {
    "Folder": _NAMED,
    "Datacenter": _NAMED,
    "ComputeResource": _NAMED,
    "VirtualApp": (*_NAMED, "parentFolder"),
    "DistributedVirtualSwitch": _NAMED,
    "DistributedVirtualPortgroup": _NAMED,
    "HostSystem": (
        *_NAMED,
        *service.PATHS,
        "config.product",
        "runtime.bootTime",
        "runtime.inMaintenanceMode",
        "runtime.powerState",
    ),
    "VirtualMachine": (
        *_NAMED,
        "config.managedBy",
        "config.template",
        "parentVApp",
        "runtime.connectionState",
        "runtime.host",
        "runtime.powerState",
    ),
}
"""What is read of every object, to know what there is and which objects a playbook means."""

_OPTION_MANAGER = "configManager.advancedOption"
_IMAGE_MANAGER = "configManager.imageConfigManager"
_MANAGERS = {_OPTION_MANAGER: "option manager", _IMAGE_MANAGER: "image manager"}
_CHOSEN = ("HostSystem", "VirtualMachine")


@dataclass(frozen=True)
class Depth:
    """Which hosts and VMs are read deeply, and on which hosts the probes run; references.

    `asked` are those of hosts that get calls of their own whatever devices they have (see `CollectorRequest.worth`);
    `calls` are the paths of those that matter, None: all.
    """

    hosts: frozenset[str] = frozenset()
    vms: frozenset[str] = frozenset()
    probe: frozenset[str] = frozenset()
    asked: frozenset[str] = frozenset()
    calls: frozenset[str] | None = None

    def __or__(self, other: Depth) -> Depth:
        """Return what is in the one or the other."""
        asked = self.asked | other.asked
        calls = None if self.calls is None or other.calls is None else self.calls | other.calls
        return Depth(self.hosts | other.hosts, self.vms | other.vms, self.probe | other.probe, asked, calls)


@dataclass(frozen=True)
class CollectorRequest:
    """What is to be read.

    `paths` maps a managed type to property paths (on hosts also ``option:KEY`` and ``software``); hosts and VMs are
    read as far as `choose` says after the light reading, every other type wholly. Settings, packages and `queries`,
    each a call of its own, are asked of each host that is read deeply and is `worth` it or in `Depth.asked`, if in
    `Depth.calls` or `always`; what `ask` returns is asked of the objects it names, after everything else. `start_ssh`
    allows to start a stopped SSH service for the time of the probes. `progress` gets lines about it.
    """

    paths: Mapping[str, tuple[str, ...]]
    choose: Callable[[Estate], Depth]
    probes: tuple[Probe, ...] = ()
    queries: tuple[Query, ...] = ()
    ask: Callable[[Estate], tuple[Query, ...]] = lambda _estate: ()
    worth: Callable[[Facts, str], bool] = lambda _host, _call: True
    always: frozenset[str] = frozenset()
    start_ssh: bool = False
    parallel: int = 8
    deadline_s: float = 60.0
    progress: Callable[[str], None] | None = None
    shared_note: Callable[[str], AbstractContextManager[None]] | None = None
    """Keeps a host, by its reference, in a note that other machines see while its SSH is started to read."""
    seen: Callable[[Mapping[str, Facts]], None] | None = None  # gets the light reading, before anything else is done
    outlines: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """More paths that are read of every object of a type."""
    services: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Paths that are read of services of vCenter, by their names in its ServiceContent."""
    remembered: ProbeMemory = field(default_factory=ProbeMemory)
    """What hosts have answered to probes before."""


def collect(vcenter: VCenter, shells: Shells | None, request: CollectorRequest) -> Estate:
    """Read one vCenter. The number of requests depends on pages and chosen hosts, not on how many VMs there are.

    Without `shells` no probe is run. A host's silence is a ProbeFailure in its facts; vCenter's is an error. SSH that a
    killed command had started is stopped, or, where that is not allowed, shown as stopped: no one else started it.
    """
    report = request.progress or (lambda _line: None)
    report(f"{vcenter.name}: reading the inventory")
    objects = vcenter.read(_everywhere(request)) | _services(vcenter, request)
    if request.seen:
        request.seen(objects)
    stops = request.start_ssh and shells is not None
    if stops:
        objects |= _stop_left(vcenter, objects)
    depth, light = _chosen(vcenter, objects, request)
    deep = vcenter.read_objects(sorted(depth.hosts | depth.vms), _closely(request))
    objects = {ref: _merged(facts, deep.get(ref)) for ref, facts in light.objects.items()}
    objects = _sound(Estate(vcenter.about, objects), request, depth)
    # what another command has started to read is stopped again in a moment: it does not stay
    objects |= _as_stopped(Estate(vcenter.about, objects), ssh_markers.held(vcenter.about.instance))
    report(f"{vcenter.name}: reading {len(depth.hosts)} hosts and {len(depth.vms)} virtual machines")
    estate = _with_answers(vcenter, shells, request, objects, depth)
    # SSH that a killed command had started will be stopped, and a plan made now is still true then
    own = () if stops else ssh_markers.left(estate.about.instance)
    return estate.with_objects(_as_stopped(estate, own).values()) if own else estate


def _chosen(vcenter: VCenter, objects: dict[str, Facts], request: CollectorRequest) -> tuple[Depth, Estate]:
    """Choose whom to read deeply; what conditions of selectors ask for is read when it is first missing."""
    asked: frozenset[Want] = frozenset()
    while True:
        try:
            return evaluate(Estate(vcenter.about, objects), request.choose)
        except Unread as unread:
            if unread.wants <= asked:
                raise
            asked |= unread.wants
            if request.progress:
                request.progress(f"{vcenter.name}: reading what selectors ask for")
            objects = {**objects, RECORD: with_answers(vcenter, objects, unread.wants)}


def collect_one(
    vcenter: VCenter, shells: Shells | None, request: CollectorRequest, depth: Depth, *, shared: bool
) -> Estate:
    """Read the hosts and VMs of `depth` closely, no other ones; and, with `shared`, everything that is neither.

    For a run that has the rest already: of 10,000 VMs, 9,999 are not asked for once more.
    """
    others = {kind: paths for kind, paths in _everywhere(request).items() if kind not in _CHOSEN}
    objects = vcenter.read(others) | _services(vcenter, request) if shared else {}
    objects |= vcenter.read_objects(sorted(depth.hosts | depth.vms), paths_read(request))
    objects = _sound(Estate(vcenter.about, objects), request, depth)
    return _with_answers(vcenter, shells, request, objects, depth)


def paths_read(request: CollectorRequest) -> dict[str, tuple[str, ...]]:
    """Return the property paths of hosts and VMs that are read of those in `collect_one`."""
    closely = _closely(request)
    return {kind: (*LIGHT[kind], *closely.get(kind, ())) for kind in _CHOSEN}


def _services(vcenter: VCenter, request: CollectorRequest) -> dict[str, Facts]:
    """Return what is read of services; one that this server does not have is left out."""
    known = ((vcenter.service(name), paths) for name, paths in request.services.items())
    paths = {ref: paths for ref, paths in known if ref is not None}
    return vcenter.read_objects(list(paths), {r.partition(":")[0]: p for r, p in paths.items()}) if paths else {}


def _sound(estate: Estate, request: CollectorRequest, depth: Depth) -> dict[str, Facts]:
    """Return the objects without those values of hosts and VMs that cannot even be looked at here."""

    def look(estate: Estate) -> list[object]:
        hosts = [estate[ref] for ref in sorted(depth.hosts) if ref in estate.objects]
        vms = [estate[ref] for ref in sorted(depth.vms) if ref in estate.objects]
        services = [(service.is_running(h), lockdown.is_locked(h)) for h in estate.of_type("HostSystem")]
        worth = [request.worth(h, SOFTWARE) or request.worth(h, "") for h in hosts]
        return [services, worth, _red(hosts), _recent((*hosts, *vms))]

    return dict(evaluate(estate, look)[1].objects)


def _with_answers(
    vcenter: VCenter, shells: Shells | None, request: CollectorRequest, objects: dict[str, Facts], depth: Depth
) -> Estate:
    hosts = [objects[ref] for ref in sorted(depth.hosts) if ref in objects]
    calls = [(p, q) for p, q in _calls(request).items() if depth.calls is None or p in depth.calls | request.always]
    asked = [(h, p, query) for h in hosts for p, query in calls if h.ref in depth.asked or request.worth(h, p)]
    objects |= _ask(vcenter, asked, request.parallel)
    objects |= _alarms(vcenter, hosts)
    recent = _recent(objects[ref] for ref in sorted(depth.hosts | depth.vms) if ref in objects)
    objects |= vcenter.read_objects(recent, {"Task": TASK_PATHS}) if recent else {}
    objects |= _answers(vcenter, Estate(vcenter.about, objects), request, depth.hosts)
    return ask_hosts(vcenter, shells, request, Estate(vcenter.about, objects), depth.probe)


def ask_also(
    vcenter: VCenter, shells: Shells | None, request: CollectorRequest, estate: Estate, hosts: Iterable[str]
) -> Estate:
    """Ask what `request.ask` wants to know of an estate that was read, and run the probes on these hosts."""
    answers = _answers(vcenter, estate, request, ())
    return ask_hosts(vcenter, shells, request, estate.with_objects(answers.values()), hosts)


def ask_hosts(
    vcenter: VCenter, shells: Shells | None, request: CollectorRequest, estate: Estate, hosts: Iterable[str]
) -> Estate:
    """Run the probes of a request on hosts (references) that were read, and return the estate with the answers."""
    probed = [estate[ref] for ref in sorted(hosts) if ref in estate.objects]
    if shells is None or not (probed and request.probes):
        return estate
    answers = request.remembered.known(probed, request.probes, estate)
    if left := [host for host in probed if host.ref not in answers]:
        if request.progress:
            request.progress(f"{vcenter.name}: asking {len(left)} hosts over SSH")
        found = prober_of(vcenter, shells, request).probe_all(left, request.probes, request.parallel)
        request.remembered.keep(left, request.probes, estate, found)
        answers |= found
    return estate.with_objects(replace(estate[r], probes=a) for r, a in answers.items())


def prober_of(vcenter: VCenter, shells: Shells, request: CollectorRequest) -> Prober:
    """Return what runs probes, and logs in to hosts, in the way of a request."""
    here, shared = partial(ssh_markers.noted, vcenter.about.instance), request.shared_note

    @contextmanager
    def note(ref: str) -> Iterator[None]:
        with here(ref), shared(ref) if shared else nullcontext():
            yield

    return Prober(vcenter, shells, may_start=request.start_ssh, deadline_s=request.deadline_s, note=note)


def _stop_left(vcenter: VCenter, objects: Mapping[str, Facts]) -> dict[str, Facts]:
    """Stop the SSH that a command which was killed had started for its probes; return those hosts' facts."""
    found: dict[str, Facts] = {}
    for ref in ssh_markers.left(vcenter.about.instance):
        host = service.stopped(vcenter, objects[ref]) if ref in objects else None
        if host is not None:
            found[ref] = host
        if host is not None or ref not in objects:
            ssh_markers.forget(vcenter.about.instance, ref)
    return found


def _as_stopped(estate: Estate, refs: Iterable[str]) -> dict[str, Facts]:
    """Return the facts of those of these hosts on which SSH runs, as if it were stopped."""
    hosts = [estate[ref] for ref in refs if ref in estate.objects]
    return {host.ref: service.as_stopped(host) for host in hosts if service.is_running(host)}


def left_running(vcenter: VCenter) -> tuple[Facts, ...]:
    """Return the hosts on which SSH runs because a command that was killed had started it to read."""
    refs = ssh_markers.left(vcenter.about.instance)
    found = vcenter.read_objects(refs, {"HostSystem": ("name", "config.service.service")}) if refs else {}
    return tuple(host for host in found.values() if service.is_running(host))


def _everywhere(request: CollectorRequest) -> dict[str, tuple[str, ...]]:
    """Return what the one view is read for: the light paths, and all paths of types there are few objects of."""
    return paths_everywhere(request.paths, request.outlines)


def paths_everywhere(
    wanted: Mapping[str, tuple[str, ...]], outlines: Mapping[str, tuple[str, ...]] = MappingProxyType({})
) -> dict[str, tuple[str, ...]]:
    """Return what all objects are read for: hosts and VMs lightly, with outlines; all others wholly."""
    light = {**LIGHT} | {kind: (*LIGHT.get(kind, ()), *more) for kind, more in outlines.items()}
    paths = {kind: (*light.get(kind, ()), *own) for kind, own in wanted.items() if kind not in _CHOSEN}
    return {**light, **paths}


def _alarms(vcenter: VCenter, hosts: Iterable[Facts]) -> dict[str, Facts]:
    """Read what the alarms are called that are red on these hosts; they are no part of the inventory tree."""
    refs = _red(hosts)
    found = vcenter.read_objects(refs, {"Alarm": ("info.name",)}) if refs else {}
    return {ref: Facts(ref, {"name": facts.get("info.name", ref)}) for ref, facts in found.items()}


def _red(hosts: Iterable[Facts]) -> list[str]:
    states = (s for h in hosts for s in h.get("triggeredAlarmState", ()))
    return sorted({s["alarm"] for s in states if s.get("overallStatus") == "red"})


def _recent(read: Iterable[Facts]) -> list[str]:
    """Return the tasks that are at work on these hosts and VMs, or were lately."""
    return sorted({ref for facts in read for ref in facts.get(TASKS, ())})


def _closely(request: CollectorRequest) -> dict[str, tuple[str, ...]]:
    """Return what chosen hosts and VMs are read for, beside the light paths; hosts also for the managers of calls."""
    managers = {"HostSystem": [query.path for query in _calls(request).values()]}
    paths = {
        kind: (*(p for p in request.paths.get(kind, ()) if not is_call(p)), *managers.get(kind, ())) for kind in _CHOSEN
    }
    return {kind: tuple(dict.fromkeys(wanted)) for kind, wanted in paths.items() if wanted}


def _merged(light: Facts, deep: Facts | None) -> Facts:
    if deep is None:
        return light
    return replace(
        light, properties={**light.properties, **deep.properties}, unreadable={**light.unreadable, **deep.unreadable}
    )


def _calls(request: CollectorRequest) -> dict[str, Query]:
    """Return what a host is asked by calls of its own, by the path of the answer among its facts."""
    wanted = request.paths.get("HostSystem", ())
    calls = {
        path: Query(path, _OPTION_MANAGER, "QueryOptions", {"name": path.removeprefix(OPTION)}, keep=_first_value)
        for path in wanted
        if path.startswith(OPTION)
    }
    if SOFTWARE in wanted:
        calls[SOFTWARE] = Query(SOFTWARE, _IMAGE_MANAGER, "fetchSoftwarePackages", keep=lambda found: found or ())
    return calls | {f"{QUERY}{query.name}": query for query in request.queries}


def _first_value(options: Plain) -> Plain:
    return next((option.get("value", "") for option in objects(options)), None)


def _ask(vcenter: VCenter, questions: Sequence[tuple[Facts, str, Query]], parallel: int) -> dict[str, Facts]:
    """Ask objects, side by side, what stands behind each path; return their facts with the answers."""
    found = {of.ref: of for of, *_ in questions}
    if not questions:
        return found
    with ThreadPoolExecutor(max_workers=calls_at_once(parallel, len(questions))) as pool:
        for answer in pool.map(lambda question: _answered(vcenter, *question), questions):
            found[answer.ref] = _merged(found[answer.ref], answer)
    return found


def calls_at_once(hosts: int, calls: int) -> int:
    """Return how many calls that only look may be under way at once, for so many hosts at a time."""
    return max(1, min(4 * hosts, calls))


def _answered(vcenter: VCenter, of: Facts, path: str, query: Query) -> Facts:
    try:
        value = _answer(vcenter, of, query)
    except (Denied, StepFailed, Unparsed) as error:
        said = f"{UNTYPED}: {error.message}" if isinstance(error, Unparsed) else error.message
        return Facts(of.ref, {}, {path: said})
    return Facts(of.ref, {} if value is None else {path: value})


def _answer(vcenter: VCenter, of: Facts, query: Query) -> object:
    manager = of.get(query.path)
    if manager is None:
        text = f"{of.name} has no {_MANAGERS.get(query.path, query.path)}; it may be disconnected"
        raise StepFailed(text, "connect the host in the vSphere Client")
    try:
        return query.keep(vcenter.call(manager, query.method, query.args))
    except VimFault as error:
        # vSphere's answer for a setting that this version of ESXi does not have.
        if query.path == _OPTION_MANAGER and error.fault == "InvalidName":
            return None
        raise


def _answers(vcenter: VCenter, estate: Estate, request: CollectorRequest, deep: Collection[str]) -> dict[str, Facts]:
    """Ask what depends on what was read; return the objects that were asked, with the answers.

    Of hosts in lockdown mode, among those that were read deeply, who may log in all the same.
    """
    locked = (h for h in estate.of_type("HostSystem") if h.ref in deep and lockdown.is_locked(h))
    exceptions = (
        Query(lockdown.EXCEPTIONS, lockdown.ACCESS_MANAGER, lockdown.EXCEPTIONS_METHOD, on=h.ref) for h in locked
    )
    asking = (*evaluate(estate, request.ask)[0], *exceptions)
    queries = [q for q in asking if q.on in estate.objects or q.on.startswith("ServiceInstance:")]
    paths: dict[str, tuple[str, ...]] = {}
    for query in queries:
        managed = query.on.partition(":")[0]
        paths[managed] = tuple(dict.fromkeys((*paths.get(managed, ()), query.path)))
    if not queries:
        return {}
    read = vcenter.read_objects(sorted({q.on for q in queries}), paths)
    asked = {ref: _merged(estate.get(ref) or Facts(ref), facts) for ref, facts in read.items()}

    questions = [(asked[q.on], f"{QUERY}{q.name}", q) for q in queries if q.on in asked]
    return asked | _ask(vcenter, questions, request.parallel)
