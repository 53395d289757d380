"""A vCenter: what is there in bulk, and calls, in plain values only."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Self

from vsphere_ai.connect.soap import planned_refs, reading, tag_service, vm_tags
from vsphere_ai.connect.soap.live_reads import LiveReads
from vsphere_ai.connect.soap.outage import WaitLimits
from vsphere_ai.connect.soap.session import SoapSession
from vsphere_ai.connect.soap.shared_reads import SharedReads
from vsphere_ai.connect.soap.stub import part
from vsphere_ai.connect.soap.task_watcher import TaskWatcher
from vsphere_ai.connect.tls import Endpoint
from vsphere_ai.connect.wire import plain
from vsphere_ai.connect.wire.privilege_answers import METHOD, MissingOnObject, held_of
from vsphere_ai.connect.wire.vmomi import EntityPrivileges, Method, Parameter, RemoteObject, VmomiSupport
from vsphere_ai.errors import StepFailed
from vsphere_ai.model.facts import About, Facts
from vsphere_ai.model.plain import Plain, PlainObject

if TYPE_CHECKING:
    from vsphere_ai.connect.soap.task_monitor import Progress

MINIMUM = "7.0.2.0"
"""vSphere 7.0 Update 2, the first with MIG-backed vGPU."""
DEFAULTS = WaitLimits()
_READS = ("query", "fetch", "retrieve", "find", "has", "check", "current", "clusterentermaintenancemode")
"""How the names of methods begin that change nothing, so that they may be repeated."""
_MANAGERS = "configManager"
"""Where a host keeps the references of its managers."""


class VCenter:
    """A connection to one vCenter; a context manager that logs out at its end.

    Reads are repeated while the server cannot be reached; calls that change something are sent once, and a lost
    answer is OutcomeUnknown. Refusals are Denied (rights, certificate), Conflict, or VimFault with the fault's detail.
    """

    def __init__(self, session: SoapSession) -> None:
        self._session, self._watcher = session, TaskWatcher(session)
        self._shared = SharedReads(lambda refs, paths: reading.read_objects(session, refs, paths))
        self._live: LiveReads | None = None
        self._submitted: Callable[[str, str], None] = lambda _step, _task: None
        self._managers: dict[tuple[str, str], str] = {}
        self._known = planned_refs.KnownRefs(session)
        self._serves, self._tables = False, dict[frozenset[str], vm_tags.Table]()
        about = session.content.about
        self.about = About(
            name=str(about.name),
            version=str(about.version),
            build=str(about.build),
            api=plain.version_id(session.version),
            instance=str(about.instanceUuid or ""),
            api_type=str(about.apiType),
            offered_api=str(about.apiVersion or ""),
        )

    @classmethod
    def connect(
        cls,
        endpoint: Endpoint,
        *,
        limits: WaitLimits | None = None,
        minimum: str = MINIMUM,
        operation: str = "",
        notify: Callable[[str], None] | None = None,
    ) -> Self:
        """Verify the server, agree on a version, log in once. Refused when it is older than `minimum`.

        `operation` is sent along with every request, so that vCenter's log shows which run it belongs to. `notify` gets
        a line every few seconds while vCenter does not answer.
        """
        session = SoapSession(endpoint, limits or DEFAULTS, minimum)
        session.stub.run = operation
        session.outage.notify = notify or session.outage.notify
        return cls(session)

    def serve(
        self, run: str, *, notify: Callable[[str], None], submitted: Callable[[str, str], None] | None = None
    ) -> None:
        """Work for a run from now on: requests carry its name, and an outage is waited for as long as runs do.

        `notify` gets a line every few seconds while vCenter does not answer; `submitted` the step (see `doing`) and the
        reference of every task that a call has started, before it is waited for.
        """
        self._session.stub.run = run
        self._session.outage.budget = self._session.limits.run_patience
        self._session.outage.notify = notify
        self._submitted = submitted or self._submitted
        self._serves = True

    @contextmanager
    def doing(self, step: str) -> Iterator[None]:
        """Let the requests of this thread carry the name of a step behind that of the run."""
        token = part.set(step)
        try:
            yield
        finally:
            part.reset(token)

    def close(self) -> None:
        """Log out."""
        self._session.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def name(self) -> str:
        """Address as an operator wrote it, with the port when it is not 443."""
        return str(self._session.endpoint)

    def now(self) -> datetime:
        """Return the server's clock, in UTC."""
        service = plain.to_object("ServiceInstance:ServiceInstance")
        moment: datetime = self._session.reading(lambda: self._session.invoke(service, "CurrentTime"))
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)

    def knows(self, refs: Mapping[str, str]) -> None:
        """Take what VMs are called here that are named by their instance UUIDs (see `planned_refs`)."""
        self._known.add(refs)

    def called(self, ref: str) -> str:
        """Return the reference that vCenter has for an object; the given one for a VM that is not there yet."""
        return self._known.real(ref)

    def supports(self, managed_type: str, path: str) -> bool:
        """Return whether the negotiated version has a property path."""
        return plain.supports(managed_type, path, self._session.version)

    def service(self, name: str) -> str | None:
        """Return the reference of a service such as ``vmCompatibilityChecker``; None when this server has none."""
        found = getattr(self._session.content, name, None)
        return plain.to_ref(found) if isinstance(found, VmomiSupport.ManagedObject) else None

    def live(self) -> LiveReads:
        """Keep what is read from now on for as long as it holds; return what says whether it does."""
        self._live = self._live or LiveReads(self._session)
        return self._live

    def read(self, paths: reading.Paths) -> dict[str, Facts]:
        """Read property paths of every object of the given types (and of types derived from them), by reference."""
        return self._live.all(paths) if self._live else reading.read_all(self._session, paths)

    def read_objects(self, refs: Sequence[str], paths: reading.Paths) -> dict[str, Facts]:
        """Read property paths of the named objects only. Objects that are gone are left out."""
        live = self._live
        if live:
            return self._known.read(refs, lambda real: live.objects(real, paths))
        if len(refs) == 1:
            return self._known.read(refs, lambda real: self._shared.read(real[0], paths))
        return self._known.read(refs, lambda real: reading.read_objects(self._session, real, paths))

    def read_tags(self, wanted: Iterable[str]) -> tag_service.Tags:
        """Return vSphere tags, each ``Category/name`` or with ``*``, and to which objects they are attached."""
        session = self._session
        return tag_service.read_tags(session.endpoint, session.trust, session.limits, wanted)

    def attached_tags(
        self, refs: Sequence[str], categories: Iterable[str]
    ) -> tuple[vm_tags.Table, dict[str, vm_tags.Names]]:
        """Return the categories of tags there are, and which tags of these categories are attached to objects.

        The categories and their tags are asked for once by a run.
        """
        with self._tag_service() as service:
            table = self._tags_of(service, frozenset(categories))
            real = {self._known.real(ref): ref for ref in refs}
            names = vm_tags.attached_names(service, table, [*real])
        return table, {real[ref]: own for ref, own in names.items()}

    def change_tags(self, ref: str, attach: Sequence[vm_tags.Pair], detach: Sequence[vm_tags.Pair]) -> None:
        """Detach tags from an object and attach others, each a category and a tag; see `vm_tags.change`."""
        with self._tag_service() as service:
            table = self._tags_of(service, frozenset(category for category, _ in (*attach, *detach)))
            vm_tags.change(service, table, self._known.real(ref), attach, detach)

    def _tag_service(self) -> tag_service.TagService:
        session = self._session
        return tag_service.TagService(session.endpoint, session.trust, session.limits)

    def _tags_of(self, service: tag_service.TagService, categories: frozenset[str]) -> vm_tags.Table:
        known = self._tables.get(categories) if self._serves else None
        if known is None:
            known = self._tables[categories] = vm_tags.table_of(service, categories)
        return known

    def tag_categories(self) -> int:
        """Return how many categories of tags the account sees."""
        session = self._session
        return tag_service.answers(session.endpoint, session.trust, session.limits)

    def resolve_path(self, ref: str, path: str) -> str:
        """Return the reference at a property path, e.g. ``configManager.graphicsManager`` of a host.

        The managers of a host are read together, and once: they are its own for as long as it keeps its reference.
        """
        if not path or (ref, path) in self._managers:
            return self._managers.get((ref, path), ref)
        whole, _, name = path.partition(".")
        asked = whole if whole == _MANAGERS else path
        found = self.read_objects([ref], {ref.partition(":")[0]: (asked,)}).get(ref)
        value = found.get(asked) if found else None
        if isinstance(value, Mapping):
            self._managers.update({(ref, f"{whole}.{n}"): v for n, v in value.items() if ":" in str(v)})
            value = value.get(name)
        if not isinstance(value, str) or ":" not in value:
            reason = found.unreadable.get(asked, "it is not there") if found else "the object is gone"
            raise StepFailed(f"{ref}: {path} cannot be used: {reason}", "Check that the host is connected.")
        return value

    def missing_privileges(self, refs: Sequence[str], privileges: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """Ask which of the privileges the account lacks, by object reference; objects where it has all are left out."""
        manager = self.service("authorizationManager")
        if manager is None:
            text = f"{self.name} has no authorization manager; privileges cannot be asked for"
            raise StepFailed(text, "check that this is a vCenter Server, and not an ESXi host")
        target, session = plain.to_object(manager), self._session
        asked = {self._known.real(ref): ref for ref in refs}

        def ask() -> Sequence[MissingOnObject | EntityPrivileges] | None:
            entities = [plain.to_object(real) for real in asked]
            # the key belongs to the session, which may be another one when this is repeated
            answers: Sequence[MissingOnObject | EntityPrivileges] | None = session.invoke(
                target, METHOD, entities, session.key, list(privileges)
            )
            return answers

        held = (each if isinstance(each, MissingOnObject) else held_of(each) for each in session.reading(ask) or ())
        return {asked.get(each.ref, each.ref): each.lacking for each in held if each.lacking}

    def call(self, ref: str, method: str, args: PlainObject | None = None, *, repeatable: bool = False) -> Plain:
        """Call a method by its WSDL name; arguments and result are plain values.

        A method whose name says that it only asks (Query…, Fetch…, Check…) may be repeated, any other is sent once,
        unless the caller says that it is `repeatable`: carried out twice, it leaves what it leaves when done once.
        """
        real, live = self._known.real(ref), self._live
        target, values = self._prepare(real, method, args or {})

        def send() -> Plain:
            return plain.to_plain(self._session.invoke(target, method, *values))

        if method.lower().startswith(_READS):
            ask = partial(self._session.reading, send)
            return live.answer(real, method, args or {}, ask) if live else ask()
        return self._session.changing(send, f"{method} on {ref}", repeatable=repeatable)

    def run_task(
        self,
        ref: str,
        method: str,
        args: PlainObject | None = None,
        *,
        timeout: float,
        progress: Progress | None = None,
    ) -> None:
        """Call a method that returns a task, and wait for its end. A failed task raises its fault.

        `progress` is called at least every 8 s with a percentage or None. Without an end within `timeout` seconds,
        or when the VM asks a question, the error is OutcomeUnknown and names the task.
        """
        from vsphere_ai.connect.soap.task_monitor import TaskMonitor

        task = str(self.call(ref, method, args))
        if part.get():
            self._submitted(part.get(), task)
        # what is destroyed is gone when the task ends, so that only the task can be followed to its end
        subject = "" if method == "Destroy_Task" else self._known.real(ref)
        TaskMonitor(self._session, self._watcher, task, f"{method} on {ref}").wait(subject, timeout, progress)

    def _prepare(self, ref: str, method: str, args: PlainObject) -> tuple[RemoteObject, list[object]]:
        target = plain.to_object(ref)
        try:
            info: Method = VmomiSupport.GetWsdlMethod(plain.NAMESPACE, method).info
            owner = VmomiSupport.GetVmodlType(info.typeName)
        except KeyError:
            raise plain.NotExpressible(f"{method} is not a method of the vSphere API") from None
        if not isinstance(target, owner):
            raise plain.NotExpressible(f"{method} is not a method of {ref.partition(':')[0]}")
        version = self._session.version
        plain.require_version(info.version, version, f"method {method}")
        unknown = sorted(set(args) - {p.name for p in info.params})
        if unknown:
            raise plain.NotExpressible(f"{method} has no argument {unknown[0]}")
        return target, [self._argument(method, p, args.get(p.name)) for p in info.params]

    def _argument(self, method: str, param: Parameter, value: Plain) -> object:
        where = f"{method}.{param.name}"
        if value is None:
            if not param.flags & VmomiSupport.F_OPTIONAL:
                raise plain.NotExpressible(f"{where} needs a value")
            return None
        plain.require_version(param.version, self._session.version, where)
        return plain.to_vim(value, param.type, self._session.version, where)
