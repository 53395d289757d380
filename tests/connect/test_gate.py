"""One refused credential, one attempt, however many hosts are asked at once."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from vsphere_ai.connect.gate import CredentialRefused, LoginGate, credential_id
from vsphere_ai.errors import Denied, Unreachable


def test_sixteen_hosts_make_one_attempt_with_a_wrong_credential():
    gate, attempts, ready = LoginGate(), [], threading.Barrier(16)

    def refuse():
        attempts.append(1)
        raise CredentialRefused("wrong password")

    def one(_):
        ready.wait(5)
        try:
            gate.login("c", refuse)
        except Denied as error:
            return error.message
        return "in"

    with ThreadPoolExecutor(16) as pool:
        said = list(pool.map(one, range(16)))
    assert len(attempts) == 1
    assert sum(text.startswith("not tried") for text in said) == 15


def test_a_credential_that_expires_during_a_run_is_refused_once():
    gate, attempts = LoginGate(), []
    gate.login("c", lambda: None)
    ready = threading.Barrier(8)

    def refuse():
        attempts.append(1)
        time.sleep(0.05)
        raise CredentialRefused("esx01 does not accept root with a password")

    def one(_):
        ready.wait(5)
        with pytest.raises(Denied):
            gate.login("c", refuse)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(one, range(8)))
    assert len(attempts) == 1


@pytest.mark.parametrize("error", [Unreachable("no answer"), Denied("takes no passwords at all")])
def test_a_host_that_was_not_given_the_credential_says_nothing_about_it(error):
    gate = LoginGate()

    def silent():
        raise error

    with pytest.raises(type(error)):
        gate.login("c", silent)
    done = []
    gate.login("c", lambda: done.append(1))
    assert done == [1]


def test_other_credentials_are_still_tried():
    gate = LoginGate()

    def refuse():
        raise CredentialRefused("no")

    with pytest.raises(Denied):
        gate.login(credential_id("root", "a"), refuse)
    gate.login(credential_id("root", "b"), lambda: None)
    assert credential_id("a", "b") != credential_id("ab", None) != credential_id("a", None)
    assert "secret" not in credential_id("root", "secret")
