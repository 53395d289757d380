"""What can be wrong with GPUs and VMs, and with what is wanted of them."""

from __future__ import annotations

from honesty import needs
from honesty.boards import OTHER_PRODUCT
from honesty.case import Case, Host, Vm
from honesty.faults import always, fault, named, one, want_of_host, want_of_vm


def no_driver(case: Case, host: str) -> bool:
    """Something is wanted of its GPUs that takes the driver."""
    at = case.host(host)
    return bool({"graphics", "mig"} & case.wants(host).keys() or
                any(case.wants(v.name).get("vgpu") for v in case.on(at)))  # fmt: skip


@fault("no NVIDIA driver", no_driver)
def _no_driver(case, rng):
    host = one(rng, [h for h in case.hosts if h.gpus and not h.mig and not any(v.vgpu for v in case.on(h))])
    if host:
        host.driver = ""
    return named(host)


@fault("graphics of a host without GPUs", lambda case, host: True)
def _no_gpu(case, rng):
    host = one(rng, [h for h in case.hosts if not h.gpus and "graphics" not in case.wants(h.name)])
    return host and want_of_host(case, host, {"graphics": {"default_type": "shared_direct"}})


@fault("MIG on a board that has none", lambda case, host: True)
def _no_mig(case, rng):
    host = one(rng, [h for h in case.hosts if not (h.board and h.board.mig)])
    return host and want_of_host(case, host, {"mig": {"mode": "enabled"}})


@fault("a layout that does not fit", lambda case, host: True)
def _layout(case, rng):
    host = one(rng, [h for h in case.hosts if h.board and h.board.mig])
    if not host:
        return None
    profile, most = max(host.board.mig.values(), key=lambda found: -found[1])
    for play in case.plays:
        if host.name in play.names:
            play.body.pop("mig", None)
    return want_of_host(case, host, {"mig": {"layout": [profile] * (most + 1)}})


def off_without_tools(case: Case, vm: str) -> bool:
    """It has to be shut down, and its guest cannot be asked."""
    return needs.goes_off(case, case.vm(vm))


@fault("a guest without VMware Tools", off_without_tools)
def _tools(case, rng):
    vm = one(rng, [v for v in case.vms if v.on])
    if vm:
        vm.tools = "none"
    return named(vm)


@fault("hardware of a later release", always)
def _hardware(case, rng):
    if case.release.startswith("9."):
        return None  # it has version 22
    return want_of_vm(case, rng, lambda _: True, {"hardware": {"version": 22}})


@fault("an unknown port group", always)
def _port_group(case, rng):
    kind = rng.choice(("adapters", "pvrdma"))
    return want_of_vm(case, rng, lambda _: True, {kind: [{"port_group": "dvpg-nowhere"}]})


@fault("PVRDMA on a network without RDMA", always)
def _not_rdma(case, rng):
    return want_of_vm(case, rng, lambda _: True, {"pvrdma": [{"port_group": "dvpg-lan"}]})


@fault("a vGPU type of another product", always)
def _other_product(case, rng):
    def fits(vm: Vm) -> bool:
        board = case.host(vm.host).board
        return bool(board and board.stem in OTHER_PRODUCT)

    vm = one(rng, [v for v in case.vms if fits(v)])
    if vm is None:
        return None
    host = case.host(vm.host)
    mig = bool(host.board.mig) and ("mig" in case.wants(host.name) or host.mig)
    type_ = rng.choice(sorted(host.board.types(mig=mig))).replace(host.board.stem, OTHER_PRODUCT[host.board.stem])
    return want_of_vm(case, rng, lambda v: v is vm, {"vgpu": [type_]})


@fault("a vGPU type that does not exist", always)
def _no_type(case, rng):
    return want_of_vm(case, rng, lambda v: case.host(v.host).gpus > 0, {"vgpu": ["grid_a100-3-21c"]})


@fault("a vGPU without Shared Direct", always)
def _shared(case, rng):
    def fits(vm: Vm) -> bool:
        host = case.host(vm.host)
        return host.gpus > 0 and not host.shared_direct and "graphics" not in case.wants(host.name)

    vm = one(rng, [v for v in case.vms if fits(v)])
    types = case.host(vm.host).board.types(mig=False) if vm else {}
    return vm and want_of_vm(case, rng, lambda v: v is vm, {"vgpu": [rng.choice(sorted(types))]})


@fault("more vGPUs than there is room for", always)
def _full(case, rng):
    """VMs that run, or are to have one, with whole GPUs: one more than there are."""

    def plain(host: Host) -> bool:
        then = needs.mig_then(case.wants(host.name), host.mig)
        type_ = case.wants(host.name).get("graphics", {}).get("default_type")
        direct = {"shared_direct": True, "shared": False}.get(type_, host.shared_direct)
        return host.gpus > 0 and not then and direct and len(case.on(host)) > host.gpus

    host = one(rng, [h for h in case.hosts if plain(h)])
    if not host:
        return None
    whole = max(host.board.sliced)
    for vm in case.on(host):
        want_of_vm(case, rng, lambda v, vm=vm: v is vm, {"vgpu": [f"{host.board.stem}-{whole}c"]})
    return host.name
