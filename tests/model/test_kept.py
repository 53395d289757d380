"""What is found out about facts is kept with them, and not where each reading of them counts."""

from __future__ import annotations

from vsphere_ai.model.estate.kept import once
from vsphere_ai.model.estate.malformed import ValueRead, logged
from vsphere_ai.model.facts import About, Estate, Facts

ABOUT = About("lab", "7.0.3", "1", "7.0.3.0", "uuid")
CALLS = []


@once
def joined(host: Facts, other: Facts | None = None, way: str = "") -> str:
    CALLS.append(host.ref)
    return f"{host.get('a')}{other.get('a') if other else ''}{way}"


def test_it_works_once_for_each_of_its_arguments():
    host, other = Facts("HostSystem:1", {"a": 1}), Facts("Network:1", {"a": 2})
    CALLS.clear()
    assert (joined(host), joined(host), joined(host, other)) == ("1", "1", "12")
    assert (joined(host, other, "x"), joined(host, other, way="x")) == ("12x", "12x")
    assert len(CALLS) == 4
    assert joined(host, Facts("Network:1", {"a": 3})) == "13"
    assert joined(host.having({"a": 5}), other) == "52"


def test_what_is_read_is_logged_each_time():
    estate, log = logged(Estate(ABOUT, {"HostSystem:1": Facts("HostSystem:1", {"a": 1})}))
    for _ in range(2):
        log.clear()
        assert joined(estate["HostSystem:1"]) == "1"
        assert log == [ValueRead("HostSystem:1", "a")]


def test_facts_with_something_kept_are_equal_to_others():
    one = Facts("HostSystem:1", {"a": 1})
    joined(one)
    assert one == Facts("HostSystem:1", {"a": 1})
    assert "test_kept" not in repr(one)
