"""Events of `serve` over real sockets: order, browsers that come back, many at once, and the end of the server."""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack

import pytest
from support.gates import busy
from support.sites import Browser, site, until

from vsphere_ai.errors import Storage
from vsphere_ai.web import live


@pytest.fixture
def served():
    with site() as made:
        made.browser.enter(made.links[-1])
        yield made


def listened(served, number=1):
    until(lambda: served.live._listeners == number)


def test_events_come_in_order_to_everyone(served):
    with served.browser.events() as one, served.browser.events() as two:
        listened(served, 2)
        for number in range(50):
            served.publish("run", {"run": f"r{number}"})
        for stream in (one, two):
            got = [stream.next() for _ in range(50)]
            assert [data["run"] for _, _, data in got] == [f"r{n}" for n in range(50)]
            assert [kind for _, kind, _ in got] == ["run"] * 50
            assert len({each for each, _, _ in got}) == 50


@pytest.mark.parametrize("header", [True, False], ids=["Last-Event-ID", "after"])
def test_a_browser_that_comes_back_gets_what_it_missed(served, header):
    with served.browser.events() as stream:
        listened(served)
        served.publish("run", {"n": 1})
        last, _, _ = stream.next()
    for number in (2, 3, 4):
        served.publish("run", {"n": number})
    with served.browser.events(last, header=header) as stream:
        assert [stream.next()[2]["n"] for _ in range(3)] == [2, 3, 4]
        served.publish("run", {"n": 5})
        assert stream.next()[2] == {"n": 5}


def test_one_who_is_new_gets_only_what_is_to_come(served):
    served.publish("run", {"n": 1})
    with served.browser.events() as stream:
        listened(served)
        served.publish("run", {"n": 2})
        assert stream.next()[2] == {"n": 2}


@pytest.mark.parametrize("after", ["0-1", "garbage", "-", "{era}-999999", "{era}-x", "{era}-99999999999999"])
def test_an_id_of_another_server_is_answered_with_a_reset(served, after):
    served.publish("run", {"n": 1})
    with served.browser.events(after.format(era=served.live._era)) as stream:
        at, kind, data = stream.next()
        assert (kind, data) == ("reset", {})
        served.publish("run", {"n": 2})
        assert stream.next()[2] == {"n": 2}
    with served.browser.events(at) as stream:
        assert stream.next()[2] == {"n": 2}


def test_one_who_was_away_for_too_long_begins_anew(served, monkeypatch):
    monkeypatch.setattr(live, "KEPT", 5)
    with site() as made:
        made.browser.enter(made.links[-1])
        with made.browser.events() as stream:
            listened(made)
            made.publish("run", {"n": 0})
            last, _, _ = stream.next()
        for number in range(1, 9):
            made.publish("run", {"n": number})
        with made.browser.events(last) as stream:
            assert stream.next()[1] == "reset"


def test_text_of_an_event_cannot_end_it(served):
    with served.browser.events() as stream:
        listened(served)
        served.publish("run", {"run": "a\n\nevent: reset\ndata: {}\n\r\u2028"})
        served.publish("run", {"run": "b"})
        assert stream.next()[2]["run"] == "a\n\nevent: reset\ndata: {}\n\r\u2028"
        assert stream.next()[1:] == ("run", {"run": "b"})


def test_many_listen_and_one_too_many_is_told_so(monkeypatch):
    monkeypatch.setattr(live, "MOST_LISTENERS", 60)
    with site() as made, ExitStack() as stack:
        made.browser.enter(made.links[-1])
        streams = [stack.enter_context(made.browser.events()) for _ in range(60)]
        listened(made, 60)
        refused = made.browser.get("/events")
        assert (refused.status, refused.headers["retry-after"]) == (503, "30")
        made.publish("reading", {"readings": 1})
        assert {stream.next()[1:] == ("reading", {"readings": 1}) for stream in streams} == {True}
        assert made.browser.get("/").status == 200
        stack.close()
        listened(made, 0)
        with made.browser.events():
            listened(made, 1)


def test_a_reader_that_reads_nothing_holds_nobody_up(served):
    with served.browser.events(), served.browser.events() as reader:
        listened(served, 2)
        for number in range(3000):
            served.publish("run", {"n": number, "text": "x" * 500})
        seen = reader.next()
        while seen[1] != "reset" and seen[2]["n"] < 2999:
            seen = reader.next()
        assert served.browser.get("/").status == 200


def test_journals_are_looked_at_only_while_someone_listens(monkeypatch):
    monkeypatch.setattr(live, "POLL", 0.01)
    looks = []
    with site(look=lambda: looks.append(1) or []) as made:
        made.browser.enter(made.links[-1])
        time.sleep(0.1)
        assert looks == []
        with made.browser.events():
            until(lambda: len(looks) > 3)


def test_a_journal_that_cannot_be_read_does_not_end_the_events(monkeypatch):
    monkeypatch.setattr(live, "POLL", 0.01)
    outcomes = [Storage("disk", "free some"), OSError(5, "input/output error"), [("run", {"n": 1})]]

    def look():
        outcome = outcomes.pop(0) if outcomes else []
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    with site(look=look) as made:
        made.browser.enter(made.links[-1])
        with made.browser.events() as stream:
            assert stream.next()[2] == {"n": 1}


def test_a_silent_stream_says_that_it_is_there(monkeypatch):
    monkeypatch.setattr(live, "PING", 0.05)
    with site() as made:
        made.browser.enter(made.links[-1])
        with made.browser.events() as stream:
            assert stream._lines() == [": ping"]


def test_the_server_ends_at_once_with_streams_and_idle_connections_open():
    ended = []
    with ExitStack() as stack:
        with site() as made:
            made.browser.enter(made.links[-1])
            streams = [stack.enter_context(made.browser.events()) for _ in range(5)]
            listened(made, 5)
            threading.Thread(target=lambda: ended.append(streams[0].next()), daemon=True).start()
            began = time.monotonic()
        assert time.monotonic() - began < 1.9 * busy()
        assert [stream.next() for stream in streams[1:]] == [None] * 4
        until(lambda: ended == [None])
    with pytest.raises(OSError, match="refused"):
        Browser(made.port).get("/")
