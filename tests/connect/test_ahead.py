"""Pages that are asked for while the one before them is read."""

from __future__ import annotations

import re
import threading
import tracemalloc
from dataclasses import replace

import pytest

from vsphere_ai.connect.vcenter import VCenter
from vsphere_ai.connect.wire import page_decoder
from vsphere_ai.errors import Denied

VM = {"VirtualMachine": ("name", "runtime.powerState")}
FIRST, NEXT = "RetrievePropertiesEx", "ContinueRetrievePropertiesEx"
WAIT = 20
NO_PERMISSION = (
    '<soapenv:Fault><faultcode>x</faultcode><faultstring/><detail><NoPermissionFault xmlns="urn:vim25" '
    'xsi:type="NoPermission"><privilegeId>System.View</privilegeId></NoPermissionFault></detail></soapenv:Fault>'
)
CLOSED = (
    '<soapenv:Fault><faultcode>x</faultcode><faultstring/><detail><NotAuthenticatedFault xmlns="urn:vim25" '
    'xsi:type="NotAuthenticated"></NotAuthenticatedFault></detail></soapenv:Fault>'
)


def vm(number, inner=""):
    name = f'<propSet><name>name</name><val xsi:type="xsd:string">n{number}</val></propSet>'
    return f'<objects><obj type="VirtualMachine">vm-{number}</obj>{name}{inner}</objects>'


def page(number, last, inner=""):
    token = "" if number == last else f"<token>t{number + 1}</token>"
    return f"<returnval>{token}{vm(number, inner)}</returnval>"


def token_in(body):
    return int(re.search(r"<token[^>]*>t(\d+)<", body)[1])


@pytest.fixture
def pages(fake):
    """Let a vCenter have some pages with a VM each; what is given by the number of a page stands in it as well."""

    def have(last, inner=None):
        inner = inner or {}
        fake.script[FIRST] = lambda _: page(0, last, inner.get(0, ""))
        fake.script[NEXT] = lambda body: page(token_in(body), last, inner.get(token_in(body), ""))

    fake.script["CreateContainerView"] = lambda _: '<returnval type="ContainerView">view-1</returnval>'
    return have


@pytest.fixture
def vcenter(fake, authority, limits):
    with VCenter.connect(fake.endpoint(ca_file=authority.file), limits=replace(limits, patience=60.0)) as connected:
        fake.calls.clear()
        fake.bodies.clear()
        yield connected


def asked(fake):
    return [method for method in fake.calls if method in (FIRST, NEXT)]


@pytest.fixture
def when_read(monkeypatch):
    """Call something with the name of each object before it is read out of its page."""
    content = page_decoder.Decoder.content

    def watch(called):
        def first(decoder, text):
            called(re.search(r"vm-\d+", text)[0])
            return content(decoder, text)

        monkeypatch.setattr(page_decoder.Decoder, "content", first)

    return watch


def test_the_next_page_is_under_way_while_one_is_read(fake, vcenter, pages, when_read):
    pages(3)
    arrived = [threading.Event() for _ in range(5)]
    answer = fake.script[NEXT]
    fake.script[NEXT] = lambda body: (arrived[token_in(body)].set(), answer(body))[1]
    ahead = {}

    def look(name):
        number = int(name.removeprefix("vm-"))
        ahead[number] = number == 3 or arrived[number + 1].wait(WAIT)
        assert not any(event.is_set() for event in arrived[number + 2 :]), "more than one page ahead"

    when_read(look)
    assert len(vcenter.read(VM)) == 4
    assert ahead == dict.fromkeys(range(4), True)
    assert asked(fake) == [FIRST, NEXT, NEXT, NEXT]


SECTION = '<propSet><name>runtime.powerState</name><val xsi:type="VirtualMachinePowerState"><![CDATA[poweredOn]]></val>'
ODD = {
    "that pyVmomi reads": (SECTION + "</propSet>", None),
    "with a value that has no type": (
        '<propSet><name>runtime.powerState</name><val xsi:type="VirtualFuture">x</val></propSet>',
        "runtime.powerState",
    ),
}


@pytest.mark.parametrize("what", ODD)
@pytest.mark.parametrize("at", [0, 1, 3])
def test_pages_behind_one_are_asked_for_once(fake, vcenter, pages, what, at):
    inner, unreadable = ODD[what]
    pages(3, {at: inner})
    found = vcenter.read(VM)
    assert [*found] == [f"VirtualMachine:vm-{n}" for n in range(4)]
    assert [*found[f"VirtualMachine:vm-{at}"].unreadable] == ([unreadable] if unreadable else [])
    assert asked(fake) == [FIRST, NEXT, NEXT, NEXT]
    assert [token_in(b) for m, b in zip(fake.calls, fake.bodies, strict=True) if m == NEXT] == [1, 2, 3]


def test_a_refused_page_is_an_error(fake, vcenter, pages):
    pages(3)
    answer = fake.script[NEXT]
    fake.script[NEXT] = lambda body: NO_PERMISSION if token_in(body) == 2 else answer(body)
    with pytest.raises(Denied):
        vcenter.read(VM)
    assert asked(fake) == [FIRST, NEXT, NEXT]


@pytest.mark.parametrize("trouble", ["session", "connection"])
def test_a_page_that_does_not_come_is_read_anew_with_all_others(fake, vcenter, pages, trouble, drop):
    pages(2)
    answer, left = fake.script[NEXT], [1]

    def once(body):
        if token_in(body) == 2 and left:
            left.pop()
            if trouble == "connection":
                raise drop
            return CLOSED
        return answer(body)

    fake.script[NEXT] = once
    assert len(vcenter.read(VM)) == 3
    assert asked(fake) == [FIRST, NEXT, NEXT] * 2
    assert fake.count("Login") == (trouble == "session")


def test_a_session_that_ended_within_a_page_asks_for_no_other(fake, vcenter, pages):
    fault = '<missingSet><path>name</path><fault><fault xsi:type="NotAuthenticated"/><localizedMessage/></fault>'
    pages(1, {0: fault + "</missingSet>"})
    fake.script["Login"] = lambda _: (pages(1), fake.built_in("Login"))[1]
    assert len(vcenter.read(VM)) == 2
    assert asked(fake) == [FIRST, FIRST, NEXT]


def test_who_stops_reading_leaves_nothing_behind(fake, vcenter, pages, when_read):
    """Ctrl-C, while the next page is under way: its answer is not taken for that of the next request."""
    pages(3)
    arrived = threading.Event()
    answer = fake.script[NEXT]
    fake.script[NEXT] = lambda body: (arrived.set(), answer(body))[1]

    def stop(_name):
        assert arrived.wait(WAIT)
        raise KeyboardInterrupt

    when_read(stop)
    with pytest.raises(KeyboardInterrupt):
        vcenter.read(VM)
    assert fake.calls[-1] == NEXT
    assert str(vcenter.now()) == "2026-05-01 10:00:00+00:00"
    assert vcenter._session.stub._seen.ahead is None
    when_read(lambda _name: None)
    assert len(vcenter.read(VM)) == 4


def test_a_thread_gets_its_own_pages(fake, vcenter, pages):
    pages(20)
    found = {}
    readers = [threading.Thread(target=lambda n=n: found.update({n: [*vcenter.read(VM)]})) for n in range(4)]
    for each in readers:
        each.start()
    for each in readers:
        each.join(WAIT)
    every = [f"VirtualMachine:vm-{n}" for n in range(21)]
    assert [found.get(n) for n in range(4)] == [every] * 4
    assert fake.count(NEXT) == 80


def test_pages_are_not_kept(fake, vcenter, pages):
    """The most memory of a reading grows with what is kept of it, not with the pages that it came in."""
    size = 1 << 20
    many = "".join(f"<string>a text that all have {n % 10}</string>" for n in range(size // 40))
    listed = f'<propSet><name>disabledMethod</name><val xsi:type="ArrayOfString">{many}</val></propSet>'
    paths = {"VirtualMachine": ("name", "disabledMethod")}

    def peak(last):
        pages(last, dict.fromkeys(range(last + 1), listed))
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        assert len(vcenter.read(paths)) == last + 1
        return tracemalloc.get_traced_memory()[1] - before

    pages(1, dict.fromkeys(range(2), listed))
    vcenter.read(paths)
    tracemalloc.start()
    try:
        few, more = peak(3), peak(40)
    finally:
        tracemalloc.stop()
    assert more < few + 8 * size  # of 40; the server, in this process as well, has a page or two in its hands
