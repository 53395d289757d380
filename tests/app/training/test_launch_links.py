"""Supervisors of a run prove themselves to each other; others who reach their ports start, stop and delay nothing."""

from __future__ import annotations

import json
import socket
import threading
import time

import pytest

from vsphere_ai.app.training.node_program import links, supervisor
from vsphere_ai.app.training.node_program.links import LineConnection, Strangers, is_proved, proof

TOKEN = "a" * 64
SPEC = {"token": TOKEN, "nodes": 3, "node": 1, "grace": 1}
HOSTILE = [
    b"[1]\n", b"1\n", b"null\n", b'"x"\n', b"{}\n", b"\n", b"not json\n", b"\xff\xfe\n", b"[" * 3000 + b"\n",
    b"x" * 5000,
    b'{"proof": 1, "node": 1}\n', b'{"proof": "\\ud800", "node": 1, "nonce": "n"}\n', b'{"proof": ["x"], "node": 1}\n',
    b'{"proof": "\xc3\xa4", "node": 1, "nonce": "n"}\n', b"",
]  # fmt: skip


@pytest.fixture
def server():
    with socket.create_server(("127.0.0.1", 0)) as made:
        yield made


def connected(server):
    return socket.create_connection(server.getsockname(), 5)


class Node:
    """What a supervisor does on its node, noted."""

    def __init__(self, spec):
        self.spec, self.done, self.notes, self.stopped = spec, [], [], False

    def do(self, message, answer):
        self.done.append(message["do"])
        return message["do"] == "end"

    def note(self, **values):
        self.notes.append(values)

    def watch(self):
        pass

    def ended(self):
        return []

    def stop(self):
        self.stopped = True


def test_a_node_and_the_first_one_know_each_other(server):
    node = Node({**SPEC, "head": list(server.getsockname())})
    thread = threading.Thread(target=supervisor.follow, args=(node, []), daemon=True)
    thread.start()
    strangers, found, until = Strangers(server, SPEC), {}, time.monotonic() + 20
    while not found and time.monotonic() < until:
        found = strangers.proved(0.2)
    assert list(found) == [1]
    for what in ("wait", "start", "end"):  # at once, so that they come together with the proof
        found[1].send({"do": what})
    thread.join(20)
    assert node.done == ["wait", "start", "end"]


def test_others_neither_end_the_first_node_nor_keep_it_from_its_own(server):
    held = [connected(server) for _ in range(40)]  # say nothing, for as long as they like
    for text in HOSTILE:
        held.append(connected(server))
        held[-1].sendall(text)
        if not text:
            held[-1].close()
    node = Node({**SPEC, "head": list(server.getsockname())})
    began = time.monotonic()
    threading.Thread(target=supervisor.follow, args=(node, []), daemon=True).start()
    strangers, found = Strangers(server, SPEC), {}
    while not found and time.monotonic() - began < 20:
        found = strangers.proved(0.2)
    assert list(found) == [1]
    assert time.monotonic() - began < links.INTRODUCTION / 2, "it waits for none of the others"
    assert len(strangers.waiting) <= 41
    found[1].send({"do": "end"})
    strangers.close()
    assert not strangers.waiting


def test_who_waits_is_forgotten_and_there_are_never_many(server, monkeypatch):
    monkeypatch.setattr(links, "MOST_STRANGERS", 3)
    monkeypatch.setattr(links, "INTRODUCTION", 0.3)
    held, strangers = [connected(server) for _ in range(8)], Strangers(server, SPEC)
    for _ in range(8):
        strangers.proved(0.05)
        assert len(strangers.waiting) <= 3
    time.sleep(0.4)
    assert strangers.proved(0.05) == {}
    assert not strangers.waiting
    assert len(held) == 8


@pytest.mark.parametrize("number", [0, 3, -1, "x", None, [1]])
def test_a_number_that_is_no_other_node_of_the_run_is_refused(server, number):
    strangers = Strangers(server, SPEC)
    own = LineConnection(connected(server))
    strangers.proved(1)
    nonce = own.line()["nonce"]
    own.send({"node": number, "proof": proof(TOKEN, "node", nonce), "nonce": "n"})
    assert strangers.proved(1) == {}
    with pytest.raises(OSError, match="ended"):
        own.line()


def replies(sent, nonce):
    """What an impostor could answer without the token: nothing, a guess, and what it was given itself."""
    yield {"do": "start", "attempt": 1, "order": 0}
    yield {"proof": "0" * 64}
    yield {"proof": sent["proof"]}
    yield {"proof": proof("", "head", sent["nonce"])}


def test_a_node_does_nothing_for_what_listens_in_the_place_of_the_first_one(server, monkeypatch):
    """Where that has died, or has not begun yet: any user of its machine may listen on its port."""
    monkeypatch.setattr(supervisor, "GATHER", 4.0)
    heard = []

    def impostor():
        for number in range(4):
            sock, _ = server.accept()
            with sock:
                link = LineConnection(sock)
                link.send({"nonce": "00"})
                heard.append(link.line())
                link.send(list(replies(heard[-1], "00"))[number])
                link.send({"do": "start", "attempt": 1, "order": 0})
                time.sleep(0.1)

    thread = threading.Thread(target=impostor, daemon=True)
    thread.start()
    node = Node({**SPEC, "head": list(server.getsockname())})
    supervisor.follow(node, [])
    thread.join(10)
    assert len(heard) == 4
    assert node.done == []
    assert node.notes[-1]["outcome"] == "failed"
    assert "rank 0's node cannot be reached" in node.notes[-1]["reason"]
    assert TOKEN not in json.dumps(heard)


def test_a_proof_of_one_side_is_none_of_the_other():
    given = {"proof": proof(TOKEN, "node", "n")}
    assert is_proved(given, TOKEN, "node", "n")
    assert not is_proved(given, TOKEN, "head", "n")
    assert not is_proved(given, TOKEN, "node", "m")
    assert not is_proved(given, TOKEN[1:], "node", "n")
