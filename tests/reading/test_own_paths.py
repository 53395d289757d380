"""Own paths of a VM: what was read again counts, also where there is no value any more."""

from __future__ import annotations

from vsphere_ai.model.facts import Facts
from vsphere_ai.reading.collector import CollectorRequest, Depth
from vsphere_ai.reading.own_paths import paths_of, renewed

VM = "VirtualMachine:vm-1"


def test_what_has_no_value_any_more_is_not_taken_from_before():
    asked = CollectorRequest({"VirtualMachine": ("a", "b", "d", "f")}, lambda _: Depth())
    before = Facts(
        VM, {"name": "old", "a": 1, "b": 2, "c": 3, "query:x": 4}, {"d": "no privilege", "e": "no privilege"}
    )
    now = renewed(before, Facts(VM, {"name": "new", "a": 5}, {"f": "unknown"}), asked)
    assert now.properties == {"name": "new", "a": 5, "c": 3}
    assert now.unreadable == {"e": "no privilege", "f": "unknown"}


def test_a_kind_has_the_paths_of_those_it_is_planned_after():
    alone, both = (set(paths_of(frozenset(names))["VirtualMachine"]) for names in (("hardware",), ("tuning",)))
    assert "config.version" in alone
    assert "config.extraConfig" in both - alone
    assert alone <= both
