"""What is recorded: the same functions run against the simulated farm when recording, and against cassettes later.

Each takes the endpoint of a vCenter and returns what the test of it looks at. Nothing here may depend on the clock,
on chance or on the order of threads, else a replay would send other requests than the recording.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from vsphere_ai.connect.soap.outage import WaitLimits
from vsphere_ai.connect.soap.tag_service import Tags
from vsphere_ai.connect.tls import Endpoint
from vsphere_ai.connect.vcenter import VCenter
from vsphere_ai.errors import VsphereAiError
from vsphere_ai.execution.actions.configure import config_spec
from vsphere_ai.execution.actions.context import Context
from vsphere_ai.execution.actions.executor import StepExecutor
from vsphere_ai.language.playbooks.play import Power, Rolling, TargetPlan
from vsphere_ai.model.facts import Estate
from vsphere_ai.model.state import Target
from vsphere_ai.model.steps import Invoke, Reconfigure, Step
from vsphere_ai.planning.planner import Plan, make_plan, remaining
from vsphere_ai.reading.collector import LIGHT, CollectorRequest, Depth, collect
from vsphere_ai.reading.host_calls import is_call
from vsphere_ai.reading.requirements import wanted_paths
from vsphere_ai.resources import kinds

LIMITS = WaitLimits(patience=2.0, backoff=0.05)
PROFILE = "grid_a100-3-20c"
OPERATION = "recorded"

# what the farm has to be for a case; brought about before the recording starts
PREPARED_HOSTS = """
- hosts: gpu_hosts
  graphics: {default_type: shared_direct, assignment_policy: performance}
  mig: {mode: enabled}
  pvrdma_host: {vmknic: vmk2, firewall: true}
  rolling: {max_unavailable: 2, evacuate: power_off, timeout: 5m}
"""

LABELLED = """
name: labelled
clusters: [{name: gpu-a}]
tags: [Stage/frozen, Team/empty]
hosts: [{name: esx01.lab.local, cluster: gpu-a, tags: [Team/ml]}]
vms:
  - {name: "train-[01:02]", host: esx01.lab.local, tags: [Team/ml]}
  - {name: train-03, host: esx01.lab.local, tags: [Team/ml, Stage/frozen]}
"""


@dataclass(frozen=True)
class Case:
    """A recorded piece of work. `prepare` is a playbook that is applied to the farm first, unrecorded.

    `scenario` is the farm, where it is not the lab's own.
    """

    name: str
    run: Callable[[Endpoint], Any]
    prepare: str = ""
    wrong_password: bool = False
    scenario: str = ""


def connected(endpoint: Endpoint) -> VCenter:
    return VCenter.connect(endpoint, limits=LIMITS, operation=OPERATION)


def login(endpoint: Endpoint) -> dict[str, Any]:
    """Agree on a version, log in, ask two questions, log out."""
    with connected(endpoint) as vcenter:
        return {
            "about": vcenter.about,
            "now": vcenter.now(),
            "checker": vcenter.service("vmCompatibilityChecker"),
            "supports": {
                path: vcenter.supports(*path.split(":"))
                for path in ("HostSystem:config.sharedPassthruGpuTypes", "HostSystem:hardware.dpuInfo")
            },
        }


def wrong_password(endpoint: Endpoint) -> VsphereAiError:
    """Try a password that is not accepted."""
    try:
        connected(endpoint).close()
    except VsphereAiError as error:
        return error
    raise AssertionError("the password was accepted")


def everything(estate: Estate) -> Depth:
    return Depth(frozenset(h.ref for h in estate.hosts), frozenset(v.ref for v in estate.vms))


def read(vcenter: VCenter, choose: Callable[[Estate], Depth] = everything) -> Estate:
    """Read as every command does, but one host after the other."""
    return collect(vcenter, None, CollectorRequest(wanted_paths(), choose, parallel=1))


def bulk_read(endpoint: Endpoint) -> Estate:
    """Read the whole estate, deeply."""
    with connected(endpoint) as vcenter:
        return read(vcenter)


def named(estate: Estate, name: str) -> Target:
    return next(t for t in (*estate.hosts, *estate.vms) if t.name == name)


def around(estate: Estate, target: Target) -> Depth:
    """Return a host with its VMs, or a VM with the hosts it can run on: what planning for it looks at."""
    if target.kind == "host":
        return Depth(frozenset({target.ref}), frozenset(v.ref for v in estate.vms_on(target.ref)))
    return Depth(frozenset(h.ref for h in estate.hosts_for(target.ref)), frozenset({target.ref}))


@dataclass(frozen=True)
class Work:
    """A plan for one target, and what was read of the target before and after its steps."""

    plan: Plan
    before: Mapping[str, Any]
    after: Mapping[str, Any]
    left: tuple[Any, ...]


def carry_out(endpoint: Endpoint, name: str, wanted: TargetPlan, chosen: Callable[[Step], bool] = bool) -> Work:
    """Read, plan for one target, do its steps (or only the chosen ones), and read it again."""
    with connected(endpoint) as vcenter:
        estate = read(vcenter, lambda light: around(light, named(light, name)))
        target = named(estate, name)
        desired = {target: wanted}
        plan = make_plan(desired, estate, kinds(), "recorded.yml")

        def again(of: Target) -> Estate:
            # the target alone: reading the whole inventory once is recorded already
            managed = of.ref.partition(":")[0]
            leaves = [p for p in wanted_paths()[managed] if not is_call(p)]
            fresh = vcenter.read_objects([of.ref], {managed: (*LIGHT[managed], *leaves)})
            return Estate(estate.about, {**estate.objects, of.ref: fresh[of.ref]})

        def left(of: Target, _: bool) -> tuple[Any, ...]:
            return remaining(desired, again(of), kinds(), of)

        executor = StepExecutor(
            Context(vcenter, no_shell, left, {}, {v.ref: estate.host_of(v.ref).ref for v in estate.vms})
        )
        for planned in plan.steps:
            if chosen(planned.step):
                executor.do(planned.step, lambda _: None)
        after = again(target)
        still = remaining(desired, after, kinds(), target)
        return Work(plan, estate[target.ref].properties, after[target.ref].properties, still)


def no_shell(host: Target) -> Any:
    raise AssertionError(f"{host.name}: nothing here may need SSH, which is not recorded")


def train_01(profile: str = PROFILE) -> TargetPlan:
    """Return what the recorded playbook wants of train-01."""
    known = kinds()
    states = (
        known["hardware"].model_validate({"version": 19}),
        known["vgpu"].model_validate({"profiles": (profile,)}),
        known["pvrdma"].model_validate({"adapters": ({"port_group": "dvpg-rdma", "protocol": "rocev2"},)}),
    )
    return TargetPlan(states, Rolling(), Power())


def vgpu_pvrdma(endpoint: Endpoint, profile: str = PROFILE) -> Work:
    """Shut a VM down, give it a vGPU and a PVRDMA adapter in one reconfigure, power it on."""
    return carry_out(endpoint, "train-01", train_01(profile))


def before_restart(step: Step) -> bool:
    return isinstance(step, Invoke) and not step.after_reboot


def graphics(endpoint: Endpoint) -> Work:
    """Configure a host's graphics; without the restart, it is not active afterwards."""
    state = kinds()["graphics"].model_validate({"default_type": "shared_direct", "assignment_policy": "performance"})
    wanted = TargetPlan((state,), Rolling(evacuate="power_off"), Power())
    return carry_out(endpoint, "esx01.lab.local", wanted, before_restart)


def refused(endpoint: Endpoint) -> dict[str, VsphereAiError]:
    """Send two reconfigures vCenter refuses: one made for an older state of the VM, one for a VM that runs."""
    errors: dict[str, VsphereAiError] = {}
    with connected(endpoint) as vcenter:
        estate = read(vcenter, lambda light: around(light, named(light, "train-01")))
        off, running = named(estate, "train-04"), named(estate, "train-01")
        version = version_of(vcenter, off)
        for key in ("first", "stale"):
            step = Reconfigure(target=off, summary="", extra_config=((f"vsphere-ai.{key}", "1"),))
            try:
                reconfigure(vcenter, step, version)
            except VsphereAiError as error:
                errors[key] = error
        plan = make_plan({running: train_01()}, estate, kinds(), "recorded.yml")
        step = next(p.step for p in plan.steps if isinstance(p.step, Reconfigure))
        try:
            reconfigure(vcenter, step, version_of(vcenter, running))
        except VsphereAiError as error:
            errors["running"] = error
    return errors


def version_of(vcenter: VCenter, vm: Target) -> str:
    found = vcenter.read_objects([vm.ref], {"VirtualMachine": ("config.changeVersion",)})
    return str(found[vm.ref].properties["config.changeVersion"])


def reconfigure(vcenter: VCenter, step: Reconfigure, version: str | None) -> None:
    vcenter.run_task(step.target.ref, "ReconfigVM_Task", {"spec": config_spec(step, version)}, timeout=60)


def tags(endpoint: Endpoint) -> Tags:
    """Read two tags and where they are attached, over the vSphere Automation API, in a session of its own."""
    with connected(endpoint) as vcenter:
        return vcenter.read_tags(["Team/*", "Stage/frozen"])


READING = (Case("login", login), Case("bulk_read", bulk_read))
"""What may be recorded from any vCenter: nothing is changed."""
CASES = (
    *READING,
    Case("wrong_password", wrong_password, wrong_password=True),
    Case("vgpu_pvrdma", vgpu_pvrdma, PREPARED_HOSTS),
    Case("graphics", graphics),
    Case("refused", refused, PREPARED_HOSTS),
    Case("tags", tags, scenario=LABELLED),
)
