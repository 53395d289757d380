"""What is repeated and what is not: logins, reads, changes, and lost answers."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor

import pytest
from support.raising import refused

from vsphere_ai.connect.leave import may_change, watch_logins
from vsphere_ai.connect.vcenter import VCenter
from vsphere_ai.connect.wire.plain import NotExpressible
from vsphere_ai.errors import ConcurrentChange, Denied, OutcomeUnknown, Refused, StepFailed, Unreachable, VimFault

HOST = "HostSystem:host-1"
SERVICES = "HostServiceSystem:serviceSystem-1"
START = (SERVICES, "StartService", {"id": "TSM-SSH"})


def fault(kind, text="", detail=""):
    return (
        f"<soapenv:Fault><faultcode>ServerFaultCode</faultcode><faultstring>{text}</faultstring><detail>"
        f'<{kind}Fault xmlns="urn:vim25" xsi:type="{kind}">{detail}</{kind}Fault></detail></soapenv:Fault>'
    )


class Sometimes:
    """Answers with each of the given in turn, then with the last for ever; an exception is raised."""

    def __init__(self, *answers):
        self.answers = list(answers)

    def __call__(self, _body):
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture
def vcenter(fake, authority, limits):
    with VCenter.connect(fake.endpoint(ca_file=authority.file), limits=limits) as connected:
        yield connected


TIME = "<returnval>2026-05-01T10:00:00Z</returnval>"


def test_one_login_and_one_logout(fake, authority, limits):
    with VCenter.connect(fake.endpoint(ca_file=authority.file), limits=limits) as vcenter:
        assert vcenter.now().isoformat() == "2026-05-01T10:00:00+00:00"
    assert fake.calls == ["RetrieveServiceContent", "Login", "CurrentTime", "Logout"]
    assert "secret&lt;&amp;&gt;" in fake.bodies[1]


def test_requests_carry_the_name_of_the_run_for_vcenters_log(fake, authority, limits):
    with VCenter.connect(fake.endpoint(ca_file=authority.file), limits=limits, operation="run-7") as vcenter:
        vcenter.now()
    assert re.search(r"<operationID[^>]*>run-7</operationID>", fake.bodies[2])


def test_a_wrong_password_is_tried_once(fake, authority, limits):
    fake.script["Login"] = lambda _: fault("InvalidLogin", "Cannot complete login")
    with refused(Denied, "login.refused", fake.endpoint().username):
        VCenter.connect(fake.endpoint(ca_file=authority.file), limits=limits)
    assert fake.count("Login") == 1


def test_a_lost_answer_to_the_login_is_unreachable(fake, authority, limits, drop):
    fake.script["Login"] = Sometimes(drop)
    with pytest.raises(Unreachable):
        VCenter.connect(fake.endpoint(ca_file=authority.file), limits=limits)
    assert fake.count("Login") == 1


def test_a_forgotten_session_is_renewed_once_and_the_call_repeated(fake, vcenter):
    fake.script["CurrentTime"] = Sometimes(fault("NotAuthenticated"), TIME)
    vcenter.now()
    assert fake.count("Login") == 2
    assert fake.count("CurrentTime") == 2


def test_a_password_that_is_refused_later_is_tried_once_in_all(fake, vcenter):
    fake.script["CurrentTime"] = lambda _: fault("NotAuthenticated")
    fake.script["Login"] = lambda _: fault("InvalidLogin", "Cannot complete login")

    def ask(_):
        with refused(Denied, "login.refused", fake.endpoint().username):
            vcenter.now()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(ask, range(24)))
    assert fake.count("Login") == 1 + 1


def test_a_change_the_server_did_not_run_for_lack_of_a_session_is_repeated(fake, vcenter):
    fake.script["StartService"] = Sometimes(fault("NotAuthenticated"), "")
    vcenter.call(*START)
    assert fake.count("Login") == 2
    assert fake.count("StartService") == 2


def test_a_session_that_ends_again_before_the_call_is_renewed_again(fake, vcenter):
    fake.script["StartService"] = Sometimes(*[fault("NotAuthenticated")] * 2, "")
    vcenter.call(*START)
    assert fake.count("Login") == 3
    assert fake.count("StartService") == 3


def test_threads_share_one_new_login(fake, vcenter):
    expired = {"yes": True}

    def answer(_body):
        return fault("NotAuthenticated") if expired["yes"] else TIME

    def login(_body):
        expired["yes"] = False
        return fake.built_in("Login")

    fake.script["CurrentTime"] = answer
    fake.script["Login"] = login
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: vcenter.now(), range(4)))
    assert fake.count("Login") == 2


def test_a_session_that_never_holds_is_given_up(fake, vcenter):
    fake.script["CurrentTime"] = lambda _: fault("NotAuthenticated", "The session is not authenticated.")
    for _ in range(4):
        with pytest.raises(Denied):
            vcenter.now()
    assert fake.count("Login") == 1 + 3
    with refused(Denied, "denied", " 3 times"):
        vcenter.now()


@pytest.mark.parametrize("trouble", ["drop", "busy", "garbage"])
def test_a_read_is_repeated(fake, vcenter, trouble, request):
    bad = "RAW<broken" if trouble == "garbage" else request.getfixturevalue(trouble)
    fake.script["CurrentTime"] = Sometimes(bad, bad, TIME)
    vcenter.now()
    assert fake.count("CurrentTime") == 3
    assert fake.count("Login") == 1


def test_a_read_is_given_up_when_patience_ends(fake, vcenter, drop):
    fake.script["CurrentTime"] = Sometimes(drop)
    with pytest.raises(Unreachable):
        vcenter.now()
    assert 1 < fake.count("CurrentTime") < 60


@pytest.mark.parametrize("trouble", ["drop", "busy", "garbage"])
def test_a_change_is_sent_once_and_its_outcome_is_unknown(fake, vcenter, trouble, request):
    fake.script["StartService"] = Sometimes(
        "RAW<broken" if trouble == "garbage" else request.getfixturevalue(trouble), ""
    )
    with refused(OutcomeUnknown, "outcome.unknown", "StartService on HostServiceSystem:serviceSystem-1"):
        vcenter.call(*START)
    assert fake.count("StartService") == 1


@pytest.mark.parametrize("trouble", ["drop", "busy"])
def test_a_change_that_may_be_repeated_is_sent_until_it_is_answered(fake, vcenter, trouble, request):
    lost = request.getfixturevalue(trouble)
    fake.script["StartService"] = Sometimes(lost, lost, lost, "")
    vcenter.call(*START, repeatable=True)
    assert fake.count("StartService") == 4


def test_a_change_that_may_be_repeated_is_given_up_when_patience_ends(fake, vcenter, drop):
    fake.script["StartService"] = Sometimes(drop)
    with refused(OutcomeUnknown, "outcome.unknown", "StartService on HostServiceSystem:serviceSystem-1"):
        vcenter.call(*START, repeatable=True)
    assert 1 < fake.count("StartService") < 60


def test_a_change_is_not_written_to_a_connection_the_server_has_left(fake, vcenter):
    fake.cut_connections()
    vcenter._session.stub.connectionPoolTimeout = 0
    vcenter.call(*START)
    assert fake.count("StartService") == 1


def test_a_change_that_never_left_is_unreachable_not_unknown(serve, good_tls, authority, limits):
    fake = serve(good_tls)
    vcenter = VCenter.connect(fake.endpoint(ca_file=authority.file), limits=limits)
    vcenter._session.stub.DropConnections()
    vcenter._session.stub.port = 1
    with pytest.raises(Unreachable, match="refused"):
        vcenter.call(*START)
    assert fake.count("StartService") == 0


@pytest.mark.parametrize(
    ("answer", "error", "rule", "says"),
    [
        (
            fault("NoPermission", "Permission was denied.", "<privilegeId>Host.Config.NetService</privilegeId>"),
            Denied,
            "denied",
            "Permission was denied",
        ),
        (fault("ConcurrentAccess", "changed"), ConcurrentChange, "object.changed", "StartService on"),
        (fault("InvalidState", "Not in this state."), VimFault, "fault.InvalidState", "Not in this state"),
        (fault("NotFound"), VimFault, "fault.NotFound", "NotFound"),
    ],
)
def test_refusals_are_sorted_by_who_has_to_act(fake, vcenter, answer, error, rule, says):
    fake.script["StartService"] = lambda _: answer
    with refused(error, rule, says) as caught:
        vcenter.call(*START)
    assert fake.count("StartService") == 1
    if error is Denied:
        assert "Host.Config.NetService" in caught.value.remedy
    if error is VimFault:
        assert f"fault.{caught.value.fault}" == rule
        assert isinstance(caught.value, StepFailed)


@pytest.mark.parametrize(
    ("ref", "method", "args", "says"),
    [
        (SERVICES, "NoSuchMethod", {}, "NoSuchMethod is not a method"),
        (HOST, "StartService", {"id": "x"}, "not a method of HostSystem"),
        (SERVICES, "StartService", {}, "StartService.id needs a value"),
        (SERVICES, "StartService", {"id": "x", "force": True}, "no argument force"),
        (SERVICES, "StartService", {"id": 5}, "expected string"),
        ("HostSystem", "StartService", {}, "not a reference"),
        ("Nothing:1", "StartService", {}, "Nothing is not a type"),
        ("VirtualDevice:1", "StartService", {}, "not a managed object"),
    ],
)
def test_a_call_that_cannot_be_meant_is_not_sent(fake, vcenter, ref, method, args, says):
    before = len(fake.calls)
    with pytest.raises(NotExpressible, match=says):
        vcenter.call(ref, method, args)
    assert len(fake.calls) == before


def test_a_method_newer_than_the_server_is_refused(fake, vcenter):
    with refused(Refused, "vcenter.too-old", "RetrieveVgpuProfileInfo", "7.0.3.0", "7.0.2.0"):
        vcenter.call("HostGraphicsManager:g", "RetrieveVgpuProfileInfo")
    assert fake.count("RetrieveVgpuProfileInfo") == 0


def test_a_service_a_server_does_not_have_is_none(vcenter):
    assert vcenter.service("vmCompatibilityChecker") is None
    assert vcenter.service("viewManager") == "ViewManager:vm"
    assert vcenter.service("about") is None
    assert vcenter.service("no such thing") is None


class Watch:
    """Keeps what it is told of logins; refuses from the moment that it is fenced."""

    def __init__(self):
        self.told, self.fenced_at = [], None

    def __call__(self, key):
        self.told.append(key)
        if self.fenced_at is not None and len(self.told) >= self.fenced_at:
            raise Denied("another worker has this run", "look at the fleet", rule="fleet.fenced")


@pytest.fixture
def watch():
    seen = Watch()
    token = watch_logins.set(seen)
    yield seen
    watch_logins.reset(token)


def test_each_login_is_asked_for_and_its_key_is_told(fake, authority, limits, watch):
    with VCenter.connect(fake.endpoint(ca_file=authority.file), limits=limits) as vcenter:
        assert [bool(key) for key in watch.told] == [False, True]
        fake.script["CurrentTime"] = Sometimes(fault("NotAuthenticated"), TIME)
        vcenter.now()
    assert [bool(key) for key in watch.told] == [False, True] * 2


@pytest.mark.parametrize(("fenced_at", "logins"), [(3, 1), (4, 2)])
def test_a_session_that_may_not_be_renewed_sends_nothing_more(fake, authority, limits, watch, fenced_at, logins):
    """Fenced before the new login, or while it is under way: the change is not sent again, and no login is left."""
    watch.fenced_at = fenced_at
    with VCenter.connect(fake.endpoint(ca_file=authority.file), limits=limits) as vcenter:
        fake.script["StartService"] = lambda _: fault("NotAuthenticated")
        for _ in range(2):
            with refused(Denied, "fleet.fenced"):
                vcenter.call(*START)
        assert fake.count("StartService") == 2
        assert fake.count("Login") == logins
        assert fake.count("Logout") == logins - 1


def test_a_change_is_sent_with_leave_only_and_again_only_with_leave(fake, authority, limits):
    allowed = [True, True, False]

    def leave():
        if not allowed.pop(0):
            raise Denied("another worker has this run", "look at the fleet", rule="fleet.fenced")

    token = may_change.set(leave)
    try:
        vcenter = VCenter.connect(fake.endpoint(ca_file=authority.file), limits=limits)
    finally:
        may_change.reset(token)
    with vcenter:
        vcenter.now()
        assert len(allowed) == 3, "who reads needs none"
        vcenter.call(*START)
        vcenter.call(*START)
        with refused(Denied, "fleet.fenced"):
            vcenter.call(*START)
        assert fake.count("StartService") == 2
        vcenter.now()
