"""Before every command on a host: whether it still lets commands in, and what is done when it does not."""

from __future__ import annotations

import pytest
from support.estates import ESX1, ESX2
from support.raising import refused

from vsphere_ai.errors import Denied, Unreachable
from vsphere_ai.execution.actions.context import Context
from vsphere_ai.execution.actions.ssh_guard import PATHS, ShellGuard
from vsphere_ai.model.facts import Facts
from vsphere_ai.model.steps import AsPlanned, EnterMaintenance, GpusAnswer, HostBack, Reboot, Shell, StartSsh, StopSsh

COMMAND = Shell(target=ESX1, argv=("nvidia-smi", "-i", "0", "-mig", "1"), summary="MIG")
START = StartSsh(target=ESX1, summary="start")
STOP = StopSsh(target=ESX1, summary="stop")
READ_BACK = AsPlanned(target=ESX1, summary="read back")
GPUS = GpusAnswer(target=ESX1, timeout=5, summary="wait")
SSH_REBOOT = Reboot(target=ESX1, via="ssh", summary="reboot")


class World:
    """A host as vCenter shows it; starting its service is noted, and works."""

    def __init__(self):
        self.lockdown, self.running, self.looks, self.started, self.told = "lockdownDisabled", True, 0, [], []
        self.exceptions, self.policy, self.boots_in = (), "off", 0

    def read_objects(self, refs, paths):
        assert paths == {"HostSystem": PATHS}
        self.looks += 1
        if self.boots_in and self.looks >= self.boots_in:
            self.running = True
        own = {"key": "TSM-SSH", "running": self.running, "policy": self.policy}
        services = () if self.running is None else (own,)
        return {refs[0]: Facts(refs[0], {"config.lockdownMode": self.lockdown, "config.service.service": services})}

    def resolve_path(self, ref, path):
        assert path == "configManager.hostAccessManager"
        return f"HostAccessManager:{ref}"

    def call(self, ref, method, args=None):
        assert (ref, method) == (f"HostAccessManager:{ESX1.ref}", "QueryLockdownExceptions")
        return self.exceptions

    def start(self, host):
        self.started.append(host)
        self.running = True


@pytest.fixture
def world():
    return World()


@pytest.fixture
def access(world):
    context = Context(world, None, None, gpus={}, hosts={}, notice=world.told.append, ssh_user="root")
    return ShellGuard(context, world.start)


@pytest.mark.parametrize("step", [COMMAND, GPUS, SSH_REBOOT])
@pytest.mark.parametrize("running", [True, None])
def test_nothing_stands_in_the_way(access, world, step, running):
    world.running = running  # None: the host does not say
    access.before(step)
    assert (world.looks, world.started) == (1, [])


@pytest.mark.parametrize(
    "step",
    [
        EnterMaintenance(target=ESX1, timeout=60, summary="enter"),
        Reboot(target=ESX1, via="api", summary="reboot"),
        HostBack(target=ESX1, timeout=5, summary="wait"),
        READ_BACK,
        START,
        STOP,
    ],
)
def test_what_goes_through_vcenter_alone_needs_no_look(access, world, step):
    world.lockdown, world.running = "lockdownNormal", False
    access.before(step)
    assert world.looks == 0


@pytest.mark.parametrize("step", [COMMAND, GPUS, SSH_REBOOT])
@pytest.mark.parametrize("mode", ["lockdownNormal", "lockdownStrict"])
def test_lockdown_mode_is_denied_and_left_alone(access, world, step, mode):
    world.lockdown = mode
    access.before(START)
    with refused(Denied, "ssh.lockdown", "esx01", mode):
        access.before(step)
    assert world.started == []


@pytest.mark.parametrize("mode", ["lockdownNormal", "lockdownStrict"])
def test_lockdown_mode_lets_its_exception_users_in(access, world, mode):
    world.lockdown, world.exceptions = mode, ("backup", "Root")
    access.before(COMMAND)
    world.exceptions = ("backup",)
    with pytest.raises(Denied):
        access.before(COMMAND)


def test_a_service_that_starts_with_its_host_is_waited_for(access, world):
    world.running, world.policy, world.boots_in = False, "on", 3
    access.before(GPUS)
    assert (world.running, world.started) == (True, [])


def test_a_service_of_somebody_else_is_not_started(access, world):
    world.running = False
    with refused(Unreachable, "ssh.stopped"):
        access.before(COMMAND)
    assert world.started == []


def test_a_service_of_ours_is_started_again_once(access, world):
    access.before(START)
    world.running = False
    access.before(COMMAND)
    assert world.started == [ESX1]
    assert len(world.told) == 1
    access.before(COMMAND)
    world.running = False
    with refused(Unreachable, "ssh.stopped-again"):
        access.before(READ_BACK)
    assert world.started == [ESX1]


def test_what_is_ours_on_one_host_is_not_on_another(access, world):
    access.before(START)
    world.running = False
    with refused(Unreachable, "ssh.stopped", "esx02"):
        access.before(Shell(target=ESX2, argv=("nvidia-smi",), summary="x"))


def test_after_it_was_stopped_as_found_it_is_not_ours(access, world):
    access.before(START)
    access.before(STOP)
    world.running = False
    with refused(Unreachable, "ssh.stopped"):
        access.before(COMMAND)


def test_reading_back_over_ssh_needs_the_same(access, world):
    access.before(COMMAND)
    world.lockdown = "lockdownNormal"
    with pytest.raises(Denied):
        access.before(READ_BACK)
