"""Whatever stands in a `vm_set`, a playbook is read, or refused with the place of each fault."""

from __future__ import annotations

import copy
import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from vsphere_ai.errors import InputError
from vsphere_ai.language.playbooks.playbook import load_playbook

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGPrxZoZZQhnUBg3MJrEqHEH5Oe5XoD7XeUaGsB3bnbn ops@lab"
GOOD = {
    "vms": "train-[01:04]",
    "vm_set": {
        "name": "train", "source": "ubuntu", "cluster": "gpu-a", "folder": "ai", "datastore": "one", "cpus": 8,
        "memory_gb": 32, "disk_gb": 40, "guest_id": "ubuntu64Guest", "linked": False, "power_state": "on",
        "nics": [
            {"name": "mgmt", "port_group": "lan", "role": "mgmt", "primary": True, "addresses": ["a", "b"]},
            {"name": "rail1", "port_group": "rdma", "type": "pvrdma", "protocol": "rocev2", "rail": 1, "mtu": 9000,
             "addresses": "auto", "shares": "high", "limit": 1000},
        ],
        "users": [{"name": "ops", "ssh_authorized_keys": [KEY], "sudo": True}],
        "placement": {"anti_affinity": "should", "hosts": "esx0*", "vm_host_rule": "must", "drs_override": "kept"},
    },
}  # fmt: skip
WORDS = st.sampled_from((
    *("", " ", "x" * 81, "x" * 63, "träin", "training vm", "a/b", "a\\b", "%2f", "日本", "-x", "x-", "[4:1]"),
    *("train-[01:9999999]",), *("auto", "dhcp", "*", "!x", "a:&b", "/DC0/vm/x"),
    *("\x07", "\u2028", "${ref:a.b}", "env:X"),
    *("ssh-rsa AAAA", KEY, "must", "on", "off", "pvrdma", "sriov", "vmxnet3"),
    *("00:50:56:00:00:01", "null", "~"),
))  # fmt: skip
NUMBERS = st.sampled_from((0, -1, 1, 2, 63, 64, 768, 769, 9000, 9001, 24_561, 63_489, 10**18, 10**30, 0.5, 1e308))
SCALARS = st.one_of(WORDS, NUMBERS, st.booleans(), st.none())
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(WORDS, inner, max_size=3)),
    max_leaves=6,
)


def places(value, at=()):
    """Every place in a value: where something can be put, taken away or doubled."""
    yield at
    found = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in found:
        yield from places(inner, (*at, key))


ALL = tuple(places(GOOD))[1:]


@st.composite
def spoilt(draw):
    play = copy.deepcopy(GOOD)
    for place in draw(st.lists(st.sampled_from(ALL), min_size=1, max_size=3)):
        at = play
        try:
            for key in place[:-1]:
                at = at[key]
            match draw(st.integers(0, 3)):
                case 0:
                    del at[place[-1]]
                case 1 if isinstance(at, dict):
                    at[draw(WORDS)] = draw(VALUES)
                case 2 if isinstance(at, list):
                    at.append(copy.deepcopy(at[place[-1]]))
                case _:
                    at[place[-1]] = draw(VALUES)
        except (KeyError, IndexError, TypeError):
            continue  # an earlier change has taken the place away
    return play


@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(play=spoilt())
def test_a_spoilt_set_is_read_or_refused_with_its_place(play, kinds, tmp_path):
    path = tmp_path / "playbook.yml"
    text = json.dumps([play], ensure_ascii=False, indent=1)
    path.write_text(text, encoding="utf-8")
    faults = ()
    try:
        load_playbook(path, kinds)
    except InputError as error:
        faults = error.diagnostics or pytest.fail("an error without a fault")
    for found in faults:
        assert (found.mark.file, bool(found.message)) == (str(path), True)
        assert 1 <= found.mark.line <= len(text.splitlines())
        assert found.mark.column >= 1
