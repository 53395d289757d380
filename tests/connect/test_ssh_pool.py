"""Connections that are kept between commands: one login, dead ones, a bound, and several commands side by side."""
# ruff: noqa: F811 - the fixtures are imported

from __future__ import annotations

import threading
import time
from types import SimpleNamespace

import paramiko
import pytest
from support.gates import until
from support.raising import refused
from support.ssh_host import KEY, PASSWORD, host, say  # noqa: F401

from vsphere_ai.connect.gate import LoginGate
from vsphere_ai.connect.leave import may_change
from vsphere_ai.connect.probing import Prober
from vsphere_ai.connect.secure_shell import ssh, ssh_pool
from vsphere_ai.connect.secure_shell.ssh_endpoint import ConnectionBroken, SshEndpoint
from vsphere_ai.errors import OutcomeUnknown, Storage, Unreachable
from vsphere_ai.model.facts import Facts
from vsphere_ai.model.state import Target
from vsphere_ai.model.steps import Probe

ESX = Target("host", "esx01", "HostSystem:host-1")


@pytest.fixture
def pool(host, tmp_path):
    """Connections to hosts of any name, all of them at the same server."""
    known = tmp_path / "known_hosts"
    known.write_text(f"[127.0.0.1]:{host.port} {KEY.get_name()} {KEY.get_base64()}\n")
    made = ssh_pool.SshPool(
        lambda t: SshEndpoint(t.name, "127.0.0.1", host.port, "root", known, password=PASSWORD), LoginGate()
    )
    yield made
    made.close()


def run(pool, *argv, at=ESX, **more):
    with pool(at) as shell:
        return shell.run(argv, 5, **more).stdout


def named(number):
    return Target("host", f"esx{number:02}", f"HostSystem:host-{number}")


def open_now(host):
    return sum(t.is_active() for t in host.transports)


def test_commands_of_one_host_share_one_login(host, pool):
    for number in range(5):
        assert run(pool, "ask", str(number)) == f"ran ask {number}\n"
    assert (host.connections, host.attempts) == (1, 1)


def test_a_host_that_is_left_gets_a_new_connection(host, pool):
    run(pool, "ask")
    pool.leave(ESX)
    until(lambda: open_now(host) == 0)
    run(pool, "ask")
    assert (host.connections, host.attempts) == (2, 2)
    pool.leave(named(7))  # one that was never asked


def test_what_the_host_has_closed_is_opened_once_more_also_for_a_change(host, pool):
    """Nothing was sent over the dead connection, so that a change may go over the new one."""
    run(pool, "ask")
    host.transports[0].close()
    assert run(pool, "change", changes=True) == "ran change\n"
    assert host.commands == ["ask", "change"]
    assert host.attempts == 2


def test_a_session_that_closes_while_it_is_opened_is_opened_once_more_also_for_a_change(host, pool, monkeypatch):
    """A connection that breaks in that moment: paramiko returns a closed session, over which nothing was sent."""
    run(pool, "ask")
    opened, real = [], paramiko.Transport.open_session

    def closing_the_first(transport, **options):
        opened.append(real(transport, **options))
        if len(opened) == 1:
            opened[0].close()
        return opened[-1]

    monkeypatch.setattr(paramiko.Transport, "open_session", closing_the_first)
    assert run(pool, "change", changes=True) == "ran change\n"
    assert host.commands == ["ask", "change"]
    assert host.attempts == 2


def test_a_connection_on_which_nothing_answers_any_more_is_given_up(host, pool, monkeypatch):
    """As after a power loss: nothing says that it has ended, and no session is opened on it."""
    monkeypatch.setattr(ssh, "PROMPT", 0.2)
    run(pool, "ask")
    refuse, silent = host.transports[0], threading.Event()
    monkeypatch.setattr(refuse, "_parse_channel_open", lambda _m: silent.wait(5), raising=False)
    refuse._handler_table = {**refuse._handler_table, paramiko.common.MSG_CHANNEL_OPEN: lambda *_: silent.wait(5)}
    assert run(pool, "change", changes=True) == "ran change\n"
    assert host.commands == ["ask", "change"]
    assert host.attempts == 2
    silent.set()


@pytest.mark.parametrize("changes", [True, False])
def test_a_command_whose_connection_breaks_is_not_sent_again(host, pool, changes):
    """What becomes of it is up to who gave it: a reading may be given again, a change has to be looked for."""
    run(pool, "ask")
    host.answer = lambda channel, _command: channel.get_transport().close()
    with pytest.raises(OutcomeUnknown if changes else ConnectionBroken):
        run(pool, "once", changes=changes)
    assert host.commands == ["ask", "once"]
    host.answer = None
    run(pool, "look")
    assert host.attempts == 2


def test_those_used_the_longest_time_ago_are_closed_beyond_the_bound(host, pool, monkeypatch):
    pool._most = 2
    for number in (1, 2, 3):
        run(pool, "ask", at=named(number))
    until(lambda: open_now(host) == 2)
    run(pool, "ask", at=named(3))
    run(pool, "ask", at=named(2))
    assert host.attempts == 3
    run(pool, "ask", at=named(1))
    assert host.attempts == 4
    assert open_now(host) <= 3


def test_what_is_in_use_is_never_closed_for_the_bound(host, pool):
    pool._most = 0
    with pool(named(1)) as one:
        one.run(["ask"], 5)
        run(pool, "ask", at=named(2))
        one.run(["ask"], 5)
    assert host.attempts == 2
    until(lambda: open_now(host) == 0)


def test_what_nothing_has_used_for_a_while_is_closed_and_opened_again(host, pool, monkeypatch):
    monkeypatch.setattr(ssh_pool, "IDLE", 0.2)
    for number in (1, 2):
        run(pool, "ask", at=named(number))
    with pool(named(3)) as used:
        used.run(["ask"], 5)
        until(lambda: open_now(host) == 1)
        used.run(["ask"], 5)
        assert host.attempts == 3, "what is in use stays open"
    until(lambda: open_now(host) == 0)
    until(lambda: pool._timer is None)  # nothing to look for
    assert run(pool, "ask", at=named(1)) == "ran ask\n"
    assert host.attempts == 4


def test_what_is_used_again_and_again_stays_open(host, pool, monkeypatch):
    now = [time.monotonic()]
    monkeypatch.setattr(ssh_pool, "time", SimpleNamespace(monotonic=lambda: now[0], sleep=time.sleep))
    for _ in range(5):
        run(pool, "ask")
        now[0] += 0.9 * ssh_pool.IDLE
        pool._close_idle()
    assert (host.attempts, open_now(host)) == (1, 1)
    now[0] += 0.2 * ssh_pool.IDLE
    pool._close_idle()
    until(lambda: open_now(host) == 0)


def test_the_end_closes_all(host, pool):
    for number in (1, 2, 3):
        run(pool, "ask", at=named(number))
    pool.close()
    until(lambda: open_now(host) == 0)
    run(pool, "ask")
    until(lambda: open_now(host) == 0)


def test_a_command_that_is_given_up_leaves_others_on_the_connection_alone(host, pool):
    """One runs into its deadline while a change is under way beside it: that goes on, and its end is seen."""
    go_on = threading.Event()

    def answer(channel, command):
        if command == "hangs":
            return
        if command == "change":
            go_on.wait(20)
        say(f"ran {command}\n")(channel, command)

    host.answer, found = answer, []
    with pool(ESX) as shell:
        thread = threading.Thread(target=lambda: found.append(shell.run(["change"], 20, changes=True).stdout))
        thread.start()
        until(lambda: host.commands == ["change"])
        with refused(Unreachable, "unreachable", "did not end in time"):
            shell.run(["hangs"], 1.5)
        go_on.set()
        thread.join()
    assert found == ["ran change\n"]
    assert (host.connections, host.attempts) == (1, 1)


PROBES = tuple(Probe(f"p{n}", ("ask", str(n))) for n in range(6))
ANSWERS = {f"p{n}": f"ran ask {n}\n" for n in range(6)}


def probed(pool):
    return Prober(None, pool, may_start=False, deadline_s=5, note=None).probe(Facts(ESX.ref, {"name": "esx01"}), PROBES)


def test_commands_that_only_read_run_side_by_side_on_one_connection(host, pool):
    """Four are under way before the first of them has an answer."""
    together = threading.Barrier(4)

    def answer(channel, command):
        if int(command.split()[1]) < 4:
            together.wait(10)
        say(f"ran {command}\n")(channel, command)

    host.answer = answer
    assert {name: found.stdout for name, found in probed(pool).items()} == ANSWERS
    assert (host.connections, host.attempts) == (1, 1)


def test_a_host_that_opens_one_session_at_a_time_is_asked_one_after_the_other(host, pool, monkeypatch):
    """MaxSessions 1 in sshd_config: the others are refused, and asked again alone, over the same connection."""
    opened = []

    def check(_kind, _id):
        # as sshd counts: a session that it has closed itself is over, whatever the other side has still to say
        alone = not any(not c.closed for t in host.transports if t.is_active() for c in t._channels.values())
        opened.append(alone)
        return paramiko.OPEN_SUCCEEDED if alone else paramiko.OPEN_FAILED_RESOURCE_SHORTAGE

    monkeypatch.setattr(host, "check_channel_request", check)
    assert {name: found.stdout for name, found in probed(pool).items()} == ANSWERS
    assert (host.connections, host.attempts) == (1, 1)
    assert not all(opened)


def test_a_command_that_changes_something_is_sent_with_leave_only(host, tmp_path):
    """Leave is asked for when the connection is there, right before the command; who reads needs none."""
    asked, allowed = [], [True]

    def leave():
        asked.append(host.attempts)
        if not allowed[0]:
            raise Storage("another worker has this run", "look at the fleet", rule="fleet.fenced")

    known = tmp_path / "known_hosts"
    known.write_text(f"[127.0.0.1]:{host.port} {KEY.get_name()} {KEY.get_base64()}\n")
    token = may_change.set(leave)
    made = ssh_pool.SshPool(
        lambda t: SshEndpoint(t.name, "127.0.0.1", host.port, "root", known, password=PASSWORD), LoginGate()
    )
    may_change.reset(token)
    assert run(made, "set", changes=True) == "ran set\n"
    assert asked == [1], "after the login"
    allowed[0] = False
    with refused(Storage, "fleet.fenced"):
        run(made, "set", "more", changes=True)
    assert run(made, "ask") == "ran ask\n"
    assert len(asked) == 2
    made.close()
