"""Surveys of guests: an answer or a reason for each, whatever the others do."""
# ruff: noqa: F811 - the fixtures are imported

from __future__ import annotations

import threading
import time

import pytest
from support.gates import LONG, until
from support.guest_sshd import sshd  # noqa: F401

from vsphere_ai.connect.secure_shell.guest_ssh import Done, GuestSsh, GuestTimedOut
from vsphere_ai.connect.secure_shell.guest_survey import AT_ONCE, NOTHING, GuestConnections, GuestSurvey, survey
from vsphere_ai.connect.secure_shell.ssh_endpoint import SshRefused
from vsphere_ai.errors import Unreachable
from vsphere_ai.model.guest_probes import CommandAnswer, GuestCommand, GuestProbe, NoAnswer, answered

SMI, CUDA, UP = (
    GuestCommand("smi", ("nvidia-smi", "-L")),
    GuestCommand("cuda", ("nvidia-smi",), 7.0, after="smi"),
    GuestCommand("up", ("cat", "/proc/uptime"), stdin=b"in"),
)
ALL = GuestProbe((SMI, CUDA, UP), answered)


class Shell(GuestSsh):
    """A guest that answers by a function of the command's words; it notes what it was asked, and how long it had."""

    def __init__(self, vm, answer=lambda argv: Done(0, " ".join(argv), "")):
        self.vm, self.answer, self.asked, self.closed = vm, answer, [], False

    def run(self, argv, *, stdin=b"", timeout=30.0, most=0, seen=None):
        self.asked.append((tuple(argv), stdin, timeout))
        return self.answer(tuple(argv))

    def close(self):
        self.closed = True


def guests(*shells, **failed):
    return GuestConnections({shell.vm: shell for shell in shells}, failed)


def hangs(*programs):
    def answer(argv):
        if argv[0] in programs:
            raise GuestTimedOut(f"a: `{argv[0]}`: took too long (20 s)")
        return Done(0, "well", "")

    return answer


def words(answers):
    return {name: (each.code, each.out, each.failure) for name, each in answers.items()}


def test_each_command_has_its_answer_with_its_limits_and_its_time():
    before, shell = (
        time.time(),
        Shell("a", lambda argv: Done(3, "out\n", "\x1b[31mno\x07\n") if "-L" in argv else Done(0, "x", "y")),
    )
    answers = GuestSurvey(guests(shell)).ask(ALL)["a"]
    assert words(answers) == {
        "smi": (3, "out\nno\N{REPLACEMENT CHARACTER}\n", ""),
        "cuda": (0, "x", ""),
        "up": (0, "x", ""),
    }
    assert [(stdin, limit) for _, stdin, limit in shell.asked] == [(b"", 20.0), (b"", 7.0), (b"in", 20.0)]
    assert all(before <= each.asked <= each.ended <= time.time() for each in answers.values())


def test_a_command_that_hangs_leaves_out_those_after_it_and_no_others():
    shell = Shell("a", hangs("nvidia-smi"))
    answers = GuestSurvey(guests(shell)).ask(ALL)["a"]
    assert words(answers) == {"smi": (0, "", "`nvidia-smi`: took too long (20 s)"), "up": (0, "well", "")}
    assert [argv for argv, *_ in shell.asked] == [SMI.argv, NOTHING, UP.argv]
    # alone it is asked: nothing of this probe says that the driver hangs
    assert words(GuestSurvey(guests(Shell("a"))).ask(GuestProbe((CUDA,), answered))["a"])["cuda"][0] == 0


def test_a_guest_that_runs_nothing_any_more_is_named_once():
    shell = Shell("a", hangs("nvidia-smi", "true"))
    error = GuestSurvey(guests(shell)).ask(ALL)["a"]
    assert isinstance(error, GuestTimedOut)
    assert error.message == "a: the guest runs no command: neither `nvidia-smi` nor `true` ended in time"
    assert len(shell.asked) == 2


def test_more_output_than_is_read_is_no_answer():
    shell = Shell("a", lambda argv: Done(-1, "x" * 9, "", truncated=True))
    found = GuestSurvey(guests(shell)).ask(GuestProbe((UP,), answered))["a"]["up"]
    assert (found.out, found.failure) == ("", "it wrote more than is read, and was ended")


def raising(error):
    def read(answers):
        if answers["up"].out.startswith("b"):
            raise error
        return answers["up"].out

    return GuestProbe((UP,), read)


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (NoAnswer("it has \x1b no uptime"), "b: it has \N{REPLACEMENT CHARACTER} no uptime"),
        (ValueError("invalid literal"), "b: its answer cannot be read"),
        (KeyError("x"), "b: its answer cannot be read"),
        (IndexError(), "b: its answer cannot be read"),
    ],
)
def test_an_answer_that_cannot_be_read_is_of_one_guest(error, message):
    shells = [Shell(vm, lambda argv, vm=vm: Done(0, vm, "")) for vm in "abc"]
    found = GuestSurvey(guests(*shells)).ask(raising(error))
    assert (found["a"], found["c"]) == ("a", "c")
    assert isinstance(found["b"], Unreachable)
    assert (found["b"].message, found["b"].rule) == (message, "guest.answer")


def test_a_mapping_asks_some_guests_and_each_its_own():
    shells = [Shell("a"), Shell("b"), Shell("c")]
    out = Unreachable("d: no", "")
    asked = {vm: GuestProbe((GuestCommand("x", (vm, "?")),), lambda own: own["x"].out) for vm in "cad"}
    assert GuestSurvey(guests(*shells, d=out)).ask(asked) == {"c": "c ?", "a": "a ?", "d": out}
    assert shells[1].asked == []


def test_those_that_could_not_be_logged_in_to_have_their_error():
    out = Unreachable("b: refused", "")
    found = GuestSurvey(guests(Shell("a"), b=out)).ask(GuestProbe((UP,), lambda own: own["up"].code))
    assert found == {"a": 0, "b": out}


def test_the_deadline_of_all_shortens_the_commands_and_names_those_it_did_not_reach():
    def slow(argv):
        time.sleep(0.05)
        return Done(0, "", "")

    shells = [Shell(f"vm-{number:03d}", slow) for number in range(3 * AT_ONCE)]
    found = GuestSurvey(guests(*shells), within=0.1).ask(GuestProbe((UP,) * 40, answered))
    assert set(found) == {shell.vm for shell in shells}
    assert all(isinstance(each, GuestTimedOut) and "before it was asked" in each.message for each in found.values())
    assert all(limit <= 0.1 for shell in shells for *_, limit in shell.asked)


def test_guests_are_asked_side_by_side_and_progress_is_told():
    together, told = threading.Barrier(AT_ONCE, timeout=LONG), []

    def meet(argv):
        together.wait()
        return Done(0, "", "")

    shells = [Shell(f"vm-{number}", meet) for number in range(AT_ONCE)]
    GuestSurvey(guests(*shells), done=lambda number, count: told.append((number, count))).ask(
        GuestProbe((UP,), answered)
    )
    assert told == [(number, AT_ONCE) for number in range(1, AT_ONCE + 1)]


def test_an_interruption_begins_no_further_guest_and_ends_what_goes_on():
    ended = threading.Event()

    def wait(argv):
        ended.wait(LONG)
        return Done(0, "", "")

    shells = [Shell(f"vm-{number:03d}", wait) for number in range(2 * AT_ONCE)]

    def stop(number, count):
        raise KeyboardInterrupt

    first = Shell("first")
    with pytest.raises(KeyboardInterrupt):
        guests(first, *shells).each(lambda shell: shell.run(("x",)), done=stop, interrupted=ended.set)
    assert sum(bool(shell.asked) for shell in shells) <= AT_ONCE


def test_connections_are_closed_together():
    with guests(Shell("a"), Shell("b")) as found:
        pass
    assert all(shell.closed for shell in found.shells.values())
    assert CommandAnswer().is_good
    assert not CommandAnswer(failure="no").is_good


# -- real servers


def test_many_guests_are_asked_at_once_and_errors_are_of_one(sshd):
    for number in range(4):
        sshd.start(f"trn-{number:02d}")
    sshd.servers["trn-01"].stop()
    strange = sshd.servers["trn-02"].key_line
    text = (sshd.folder / "known_hosts").read_text().replace(strange, "")
    (sshd.folder / "known_hosts").write_text(text)
    home = GuestProbe((GuestCommand("home", ("sh", "-c", "echo $HOME")),), lambda own: own["home"].out.split("/")[-2])
    found = survey(sshd.nodes, sshd.settings(), home)
    assert (found["trn-00"], found["trn-03"]) == ("trn-00", "trn-03")
    assert isinstance(found["trn-01"], SshRefused)
    assert "trn-01" in found["trn-01"].message
    assert found["trn-02"].rule == "ssh.host-key"
    assert "vsphere-ai trust guest trn-02" in found["trn-02"].remedy
    with pytest.raises(SshRefused, match="trn-01"):
        GuestConnections.to_all(sshd.nodes[1:], sshd.settings())
    until(lambda: not [t for t in threading.enumerate() if t.name.startswith("guest")])
