"""No search for garbage while pages are read, and none of what a large reading has left."""

from __future__ import annotations

import gc

import pytest

from vsphere_ai.connect.wire import memory
from vsphere_ai.connect.wire.memory import compact, no_collection


@pytest.fixture(autouse=True)
def enabled():
    was = gc.isenabled()
    gc.enable()
    yield
    (gc.enable if was else gc.disable)()


@pytest.fixture
def none_frozen(monkeypatch):
    """Nothing is frozen, whatever these tests keep out of the collector's way."""
    kept = []
    monkeypatch.setattr(gc, "get_freeze_count", lambda: 0)
    monkeypatch.setattr(gc, "freeze", lambda: kept.append("freeze"))
    monkeypatch.setattr(gc, "unfreeze", lambda: kept.append("unfreeze"))
    return kept


def test_nothing_is_collected_while_it_reads_and_everything_afterwards():
    with no_collection():
        assert not gc.isenabled()
    assert gc.isenabled()


def test_it_stays_off_where_it_was_off():
    gc.disable()
    with no_collection():
        pass
    assert not gc.isenabled()


def test_what_a_large_reading_leaves_is_old_at_once(none_frozen):
    with no_collection():
        kept = [{"a": [number]} for number in range(memory._MANY)]
    assert none_frozen == ["freeze", "unfreeze"]
    assert kept


def test_a_small_reading_does_not_count_what_is_frozen(monkeypatch):
    monkeypatch.setattr(gc, "get_freeze_count", lambda: pytest.fail("it goes through all that is frozen"))
    gc.collect()
    with no_collection():
        assert [{"a": [number]} for number in range(100)]


def test_what_others_have_frozen_stays_frozen(none_frozen, monkeypatch):
    monkeypatch.setattr(gc, "get_freeze_count", lambda: 1)
    with no_collection():
        assert [{"a": [number]} for number in range(memory._MANY)]
    assert none_frozen == []


def test_a_compact_dictionary_is_equal_and_can_be_changed():
    given = {f"key{number}": number for number in range(12)}
    made = compact(given)
    assert (made, list(made)) == (given, list(given))
    made["more"] = 1
    assert "more" not in compact(given)
