"""Following a task to its end, or saying honestly that the end was not seen."""

from __future__ import annotations

import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from support.gates import LONG
from support.raising import refused

from vsphere_ai.connect.vcenter import VCenter
from vsphere_ai.errors import OutcomeUnknown, VimFault

VM = "VirtualMachine:vm-1"


def update(version, *changes, kind="modify"):
    inner = "".join(
        f'<changeSet><name>{name}</name><op>assign</op><val xsi:type="{kind_}">{text}</val></changeSet>'
        for name, kind_, text in changes
    )
    return (
        f'<returnval><version>{version}</version><filterSet><filter type="PropertyFilter">f</filter><objectSet>'
        f'<kind>{kind}</kind><obj type="Task">task-7</obj>{inner}</objectSet></filterSet></returnval>'
    )


def state(text):
    return ("info.state", "TaskInfoState", text)


def percent(number):
    return ("info.progress", "xsd:int", number)


def outcome(*properties):
    inner = "".join(f"<propSet><name>{name}</name>{val}</propSet>" for name, val in properties)
    return f'<returnval><objects><obj type="Task">task-7</obj>{inner}</objects></returnval>'


CAUSE = (
    '<val xsi:type="LocalizedMethodFault"><fault xsi:type="GenericVmConfigFault"><faultCause>'
    '<fault xsi:type="InsufficientGraphicsResourcesFault"/><localizedMessage>There is not enough free GPU memory'
    "</localizedMessage></faultCause><faultMessage><key>vob.gpu</key><message>Could not initialize plugin "
    "'libnvidia-vgx.so' for vGPU 'grid_a100-40c'.</message></faultMessage><reason>r</reason></fault>"
    "<localizedMessage>Module 'DevicePowerOn' power on failed.</localizedMessage></val>"
)
FAILURE = outcome(("info.error", CAUSE))
GONE = (
    "<soapenv:Fault><faultcode>ServerFaultCode</faultcode><faultstring/><detail>"
    '<{0}Fault xmlns="urn:vim25" xsi:type="{0}"/></detail></soapenv:Fault>'
)


@pytest.fixture
def vcenter(fake, authority, limits):
    fake.script.update(
        PowerOnVM_Task=lambda _: '<returnval type="Task">task-7</returnval>',
        CreatePropertyCollector=lambda _: '<returnval type="PropertyCollector">pc-1</returnval>',
        CreateListView=lambda _: '<returnval type="ListView">view-1</returnval>',
        CreateFilter=lambda _: '<returnval type="PropertyFilter">f</returnval>',
    )
    with VCenter.connect(fake.endpoint(ca_file=authority.file), limits=limits) as connected:
        yield connected


def waits(fake, *answers):
    """Script WaitForUpdatesEx; an exception is raised, the last answer stays."""
    left = list(answers)

    def answer(_body):
        one = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(one, Exception):
            raise one
        return one

    fake.script["WaitForUpdatesEx"] = answer


def test_a_task_is_followed_by_updates_not_by_polling(fake, vcenter):
    waits(
        fake,
        update("1", state("queued")),
        update("2", state("running"), percent(40)),
        "",
        update("3", state("success")),
    )
    seen = []
    vcenter.run_task(VM, "PowerOnVM_Task", timeout=5, progress=seen.append)
    assert seen == [None, 40, 40]
    assert fake.count("PowerOnVM_Task") == 1
    assert fake.count("WaitForUpdatesEx") == 4
    assert fake.count("RetrievePropertiesEx") == 0
    assert ">2</version>" in [b for b in fake.bodies if "WaitForUpdatesEx" in b][2]


def test_why_a_task_failed_is_asked_again_in_a_new_session(fake, vcenter):
    """The session may end between the task's end and the question: then the answer lacks what was asked for."""
    lost = (
        '<returnval><objects><obj type="Task">task-7</obj><missingSet><path>info.error</path><fault>'
        '<fault xsi:type="NotAuthenticated"><object type="Task">task-7</object><privilegeId>System.Read</privilegeId>'
        "</fault><localizedMessage>x</localizedMessage></fault></missingSet></objects></returnval>"
    )
    answers = [lost, FAILURE]
    waits(fake, update("1", state("error")))
    fake.script["RetrievePropertiesEx"] = lambda _: answers.pop(0)
    with pytest.raises(VimFault):
        vcenter.run_task(VM, "PowerOnVM_Task", timeout=5)
    assert fake.count("Login") == 2
    assert fake.count("PowerOnVM_Task") == 1


def test_a_failed_task_tells_the_whole_story(fake, vcenter):
    waits(fake, update("1", state("error")))
    fake.script["RetrievePropertiesEx"] = lambda _: FAILURE
    with pytest.raises(VimFault) as caught:
        vcenter.run_task(VM, "PowerOnVM_Task", timeout=5)
    message = caught.value.message
    for part in (
        "PowerOnVM_Task on VirtualMachine:vm-1",
        "Module 'DevicePowerOn' power on failed.",
        "libnvidia-vgx.so",
        "not enough free GPU memory",
    ):
        assert part in message
    assert caught.value.fault == "GenericVmConfigFault"


def test_a_task_that_does_not_end_in_time_is_unknown_and_named(fake, vcenter):
    waits(fake, update("1", state("running")), "")
    with refused(OutcomeUnknown, "outcome.unknown", "task-7", " 0 s"):
        vcenter.run_task(VM, "PowerOnVM_Task", timeout=0.05)
    assert fake.count("PowerOnVM_Task") == 1


@pytest.mark.parametrize("kind", ["SystemError", "InvalidState", "NotSupported"])
def test_a_task_that_cannot_be_followed_is_unknown_not_failed(fake, vcenter, kind):
    waits(fake, update("1", state("running")), GONE.format(kind))
    with refused(OutcomeUnknown, "outcome.unknown", "task-7", kind) as caught:
        vcenter.run_task(VM, "PowerOnVM_Task", timeout=5)
    assert caught.value.task == "Task:task-7"
    assert fake.count("PowerOnVM_Task") == 1


def test_a_question_of_the_vm_is_reported_not_answered(fake, vcenter):
    question = (
        "runtime.question",
        "VirtualMachineQuestionInfo",
        "<id>1</id><text>Did you move or copy this virtual machine?</text><choice><choiceInfo/></choice>",
    )
    waits(fake, update("1", state("running"), question))
    with refused(OutcomeUnknown, "outcome.unknown", "task-7", "Did you move or copy"):
        vcenter.run_task(VM, "PowerOnVM_Task", timeout=5)
    assert fake.count("AnswerVM") == 0


@pytest.mark.parametrize("trouble", ["drop", "NotAuthenticated", "InvalidCollectorVersion", "ManagedObjectNotFound"])
def test_a_wait_that_breaks_goes_on_with_a_new_collector(fake, vcenter, trouble, drop):
    waits(fake, drop if trouble == "drop" else GONE.format(trouble), update("1", state("success")))
    vcenter.run_task(VM, "PowerOnVM_Task", timeout=5)
    assert fake.count("PowerOnVM_Task") == 1
    assert fake.count("CreatePropertyCollector") == 2


def test_a_session_lost_while_waiting_is_renewed(fake, vcenter):
    waits(fake, GONE.format("NotAuthenticated"), update("1", state("success")))
    forgotten = [GONE.format("NotAuthenticated")]
    first = [True]

    def create(_body):
        if first:
            first.clear()
            return '<returnval type="PropertyCollector">pc-1</returnval>'
        return forgotten.pop() if forgotten else '<returnval type="PropertyCollector">pc-2</returnval>'

    fake.script["CreatePropertyCollector"] = create
    vcenter.run_task(VM, "PowerOnVM_Task", timeout=5)
    assert fake.count("Login") == 2
    assert fake.count("PowerOnVM_Task") == 1


def test_a_task_vcenter_has_forgotten_is_unknown(fake, vcenter):
    waits(fake, update("1", kind="leave"))
    with pytest.raises(OutcomeUnknown, match="no longer known"):
        vcenter.run_task(VM, "PowerOnVM_Task", timeout=5)
    while vcenter._watcher._thread is not None:  # it may have seen the task, which has one name here, leave once more
        time.sleep(0.01)
    waits(fake, update("1", state("error")))
    fake.script["RetrievePropertiesEx"] = lambda _: GONE.format("ManagedObjectNotFound").replace(
        "/></detail>", '><obj type="Task">task-7</obj></ManagedObjectNotFoundFault></detail>'
    )
    with pytest.raises(OutcomeUnknown, match="failed without saying why"):
        vcenter.run_task(VM, "PowerOnVM_Task", timeout=5)


def test_a_vcenter_that_stays_away_leaves_the_outcome_unknown(fake, vcenter, drop):
    waits(fake, drop)

    def gone(_body):
        raise drop

    fake.script["CreateFilter"] = gone
    with pytest.raises(OutcomeUnknown, match="can no longer be followed"):
        vcenter.run_task(VM, "PowerOnVM_Task", timeout=30)
    assert fake.count("PowerOnVM_Task") == 1


def test_a_lost_answer_to_the_call_itself_is_unknown(fake, vcenter, drop):
    def gone(_body):
        raise drop

    fake.script["PowerOnVM_Task"] = gone
    with refused(OutcomeUnknown, "outcome.unknown", "PowerOnVM_Task"):
        vcenter.run_task(VM, "PowerOnVM_Task", timeout=5)
    assert fake.count("PowerOnVM_Task") == 1


def test_many_breaks_in_a_row_are_survived_while_the_budget_lasts(fake, vcenter, drop):
    waits(fake, *[drop] * 12, update("1", state("success")))
    vcenter._session.outage.budget = 30.0
    vcenter._session.limits = replace(vcenter._session.limits, longest_pause=0.05)
    vcenter.run_task(VM, "PowerOnVM_Task", timeout=30)
    assert fake.count("PowerOnVM_Task") == 1
    assert fake.count("CreatePropertyCollector") == 13


def test_collectors_that_never_hold_are_given_up_in_time(fake, vcenter):
    waits(fake, GONE.format("InvalidCollectorVersion"))
    vcenter._session.outage.budget = 0.5
    with refused(OutcomeUnknown, "outcome.unknown", "InvalidCollectorVersion") as caught:
        vcenter.run_task(VM, "PowerOnVM_Task", timeout=30)
    assert caught.value.task == "Task:task-7"
    assert fake.count("PowerOnVM_Task") == 1


NOT_THERE = GONE.format("ManagedObjectNotFound").replace(
    "/></detail>", '><obj type="{}">{}</obj></ManagedObjectNotFoundFault></detail>'
)


def test_a_task_that_is_not_there_is_gone(fake, vcenter):
    made = fake.script["CreateListView"]
    fake.script["CreateListView"] = lambda body: NOT_THERE.format("Task", "task-7") if "task-7<" in body else made(body)
    released = threading.Event()
    fake.script["WaitForUpdatesEx"] = lambda _: released.wait(10) and ""
    with pytest.raises(OutcomeUnknown, match="no longer known") as caught:
        vcenter.run_task(VM, "PowerOnVM_Task", timeout=5)
    released.set()
    assert caught.value.task == "", "there is nothing left to wait for"


def test_a_vm_that_is_gone_does_not_end_the_watching_of_its_task(fake, vcenter):
    listed, made = [], fake.script["CreateListView"]

    def create(body):
        listed.append(body)
        return NOT_THERE.format("VirtualMachine", "vm-1") if "vm-1<" in body else made(body)

    waits(fake, update("1", state("success")))
    fake.script["CreateListView"] = create
    vcenter.run_task(VM, "PowerOnVM_Task", timeout=5)
    assert len(listed) == 2
    assert ">task-7<" in listed[-1]
    assert fake.count("PowerOnVM_Task") == 1


UNRESOLVED = '<returnval type="Task">task-{}</returnval>'


NO_TASK = NOT_THERE.format("Task", "task-{}")


@pytest.mark.parametrize("answer", [NO_TASK, UNRESOLVED])
def test_a_later_task_that_is_not_there_is_gone(fake, vcenter, answer):
    farm = Farm(fake)
    farm.hold.set()
    vcenter.run_task("VirtualMachine:vm-0", "PowerOnVM_Task", timeout=30)
    listed = fake.script["ModifyListView"]
    fake.script["ModifyListView"] = lambda body: answer.format(1) if "task-1<" in body else listed(body)
    with pytest.raises(OutcomeUnknown, match="no longer known"):
        vcenter.run_task("VirtualMachine:vm-1", "PowerOnVM_Task", timeout=5)
    fake.script["ModifyListView"] = listed
    vcenter.run_task("VirtualMachine:vm-7", "PowerOnVM_Task", timeout=30)


def test_a_question_that_was_answered_is_not_reported_at_the_next_task(fake, vcenter):
    asked = update("1", state("running")).replace(
        "</objectSet>",
        '</objectSet><objectSet><kind>modify</kind><obj type="VirtualMachine">vm-1</obj><changeSet><name>'
        'runtime.question</name><op>assign</op><val xsi:type="VirtualMachineQuestionInfo"><id>1</id>'
        "<text>Did you move it?</text><choice><choiceInfo/></choice></val></changeSet></objectSet>",
    )
    waits(fake, asked, update("2", state("success")))
    with refused(OutcomeUnknown, "outcome.unknown", "task-7", "Did you move it?"):
        vcenter.run_task(VM, "PowerOnVM_Task", timeout=5)
    waits(fake, update("3", state("success")))
    fake.script["RetrievePropertiesEx"] = lambda _: (
        '<returnval><objects><obj type="VirtualMachine">vm-1</obj></objects></returnval>'
    )
    vcenter.run_task(VM, "PowerOnVM_Task", timeout=5)
    assert fake.count("RetrievePropertiesEx") == 1, "it is asked for once, where it was pending before"


class Farm:
    """Tasks ``task-N`` of VMs ``vm-N``, each of which ends once it is listed."""

    def __init__(self, fake):
        self.started, self.listed, self.reported = [], set(), set()
        self.lists = []
        self.hold = threading.Event()
        self.changed = threading.Condition()
        fake.script.update(
            PowerOnVM_Task=self.start,
            CreateListView=lambda body: self.list(body) or '<returnval type="ListView">view-1</returnval>',
            ModifyListView=self.list,
            WaitForUpdatesEx=self.wait,
        )

    def start(self, body):
        number = re.search(r">vm-(\d+)<", body)[1]
        self.started.append(number)
        return f'<returnval type="Task">task-{number}</returnval>'

    def list(self, body):
        self.hold.wait(10)
        found = set(re.findall(r">task-(\d+)<", body.partition("<remove")[0]))
        with self.changed:
            self.lists.append(found)
            self.listed |= found
            self.changed.notify_all()
        return ""

    def wait(self, _body):
        with self.changed:
            self.changed.wait_for(lambda: self.listed - self.reported, 1)
            new, self.reported = self.listed - self.reported, set(self.listed)
        found = "".join(
            f'<objectSet><kind>enter</kind><obj type="Task">task-{n}</obj><changeSet><name>info.state</name>'
            '<op>assign</op><val xsi:type="TaskInfoState">success</val></changeSet></objectSet>'
            for n in sorted(new)
        )
        return found and (
            f'<returnval><version>{len(self.reported)}</version><filterSet><filter type="PropertyFilter">f</filter>'
            f"{found}</filterSet></returnval>"
        )


def test_tasks_side_by_side_share_one_collector_and_go_together_into_its_list(fake, vcenter):
    farm = Farm(fake)
    with ThreadPoolExecutor(20) as pool:
        ends = [
            pool.submit(vcenter.run_task, f"VirtualMachine:vm-{n}", "PowerOnVM_Task", timeout=30) for n in range(20)
        ]
        deadline = time.monotonic() + LONG
        while len(vcenter._watcher._watches) < 20 and time.monotonic() < deadline:
            time.sleep(0.01)
        farm.hold.set()
        for each in ends:
            each.result()
    assert len(farm.started) == 20
    made = {name: fake.count(name) for name in ("CreatePropertyCollector", "CreateListView", "CreateFilter")}
    assert set(made.values()) == {1}, made
    assert len(farm.lists) <= 3, "the first, those that began before the list was there, and those since"
    assert farm.listed == {str(n) for n in range(20)}
    assert fake.count("WaitForUpdatesEx") <= 3


def test_the_next_task_takes_the_same_collector_and_what_ended_off_its_list(fake, vcenter):
    farm = Farm(fake)
    farm.hold.set()
    for number in range(4):
        vcenter.run_task(f"VirtualMachine:vm-{number}", "PowerOnVM_Task", timeout=30)
    assert fake.count("CreatePropertyCollector") == fake.count("CreateListView") == 1
    assert farm.lists == [{"0"}, {"1"}, {"2"}, {"3"}]
    bodies = [body for body in fake.bodies if "ModifyListView" in body]
    removed = [set(re.findall(r"<remove[^>]*>([a-z]+-\d)<", body)) for body in bodies]
    assert removed == [{f"task-{number}", f"vm-{number}"} for number in range(3)]


def test_a_bug_in_the_watcher_leaves_nobody_waiting(fake, vcenter):
    waits(fake, update("1", state("success")))
    vcenter._watcher._take = lambda _changed: 1 / 0
    with refused(OutcomeUnknown, "outcome.unknown", "task-7", "ZeroDivisionError"):
        vcenter.run_task(VM, "PowerOnVM_Task", timeout=60)


def test_a_cause_that_cannot_be_read_leaves_the_outcome_unknown(fake, vcenter, drop):
    waits(fake, update("1", state("error")))

    def answer(_body):
        raise drop

    fake.script["RetrievePropertiesEx"] = answer
    with pytest.raises(OutcomeUnknown, match="has failed, but why cannot be read"):
        vcenter.run_task(VM, "PowerOnVM_Task", timeout=5)
