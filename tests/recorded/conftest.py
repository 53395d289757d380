"""A network that is not there, and a vCenter nobody can reach."""

from __future__ import annotations

import socket

import pytest

from vsphere_ai.connect.tls import Endpoint


class NetworkUsed(AssertionError):
    """Something that is to be replayed wanted to talk to somebody."""


@pytest.fixture
def no_network(monkeypatch):
    """Refuse every connection and every look-up of a name; fails the test even when the refusal was swallowed."""
    tried = []

    def refuse(*arguments, **_):
        tried.append(arguments)
        raise NetworkUsed(f"no network in this test: {arguments}")

    for owner, name in (
        (socket.socket, "connect"),
        (socket.socket, "connect_ex"),
        (socket.socket, "sendto"),
        (socket, "create_connection"),
        (socket, "getaddrinfo"),
    ):
        monkeypatch.setattr(owner, name, refuse)
    yield tried
    assert tried == []


@pytest.fixture
def elsewhere() -> Endpoint:
    """Another vCenter, another account, another password than when the cassettes were recorded."""
    return Endpoint("vc7.elsewhere.example", 9443, "EXAMPLE\\operator", "another <password> & more")
