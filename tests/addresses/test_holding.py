"""Holdings of addresses: none is given twice, none is lost, and a VM keeps its own."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from vsphere_ai.addresses.holding import AddressLedger, NicHolding, PoolChoice, PoolsExhausted
from vsphere_ai.addresses.ledger_text import ledger_text, read_ledger
from vsphere_ai.addresses.pool import AddressPool
from vsphere_ai.errors import Conflict
from vsphere_ai.model.names.networks import AddressRange, address_range

POOLS = {
    "a": AddressPool(subnet="10.0.0.0/27", ranges=("10.0.0.4-10.0.0.9", "10.0.0.12-10.0.0.15"), quarantine=10),
    "b": AddressPool(subnet="10.0.1.0/29", gateway="10.0.1.1", quarantine=0),
    "blocks": AddressPool(subnet="172.16.0.0/24", per_node=27, exclude=("172.16.0.40",), quarantine=10),
    "six": AddressPool(subnet="fd00::/124", quarantine=5),
}


def nic(name: str = "trn", version: int = 4) -> NicHolding:
    return NicHolding(name, "rail1", version)


def held(ledger: AddressLedger, which: NicHolding) -> list[str]:
    holding = ledger.holdings[which]
    return [str(holding.of(index).range) for index in range(1, holding.count + 1)]


def with_count(
    ledger: AddressLedger, which: NicHolding, count: int, now: int = 0, names=("a",), avoided=()
) -> AddressLedger:
    found = ledger.with_count(which, count, PoolChoice(POOLS, names, avoided), now)
    assert isinstance(found, AddressLedger), found
    return found


def without_set(ledger: AddressLedger, name: str, now: int) -> AddressLedger:
    for each in [nic for nic in ledger.holdings if nic.set == name]:
        ledger = ledger.with_count(each, 0, PoolChoice(POOLS, ()), now)
    return ledger


def test_the_first_vm_has_the_lowest_address_and_a_set_stays_together():
    assert held(with_count(AddressLedger(), nic(), 3), nic()) == ["10.0.0.4", "10.0.0.5", "10.0.0.6"]


def test_a_set_takes_the_first_gap_that_holds_all_of_it():
    ledger = with_count(with_count(AddressLedger(), nic("one"), 3), nic("two"), 4)
    assert held(ledger, nic("two")) == ["10.0.0.12", "10.0.0.13", "10.0.0.14", "10.0.0.15"]


def test_a_set_that_grows_goes_on_behind_its_last_address():
    ledger = with_count(with_count(AddressLedger(), nic(), 2), nic(), 5)
    assert held(ledger, nic()) == [f"10.0.0.{n}" for n in (4, 5, 6, 7, 8)]


def test_the_next_pool_gives_what_the_first_lacks():
    ledger = with_count(AddressLedger(), nic(), 12, names=("a", "b"))
    assert held(ledger, nic())[9:] == ["10.0.0.15", "10.0.1.2", "10.0.1.3"]
    assert [ledger.holdings[nic()].of(index).pool for index in (10, 11)] == ["a", "b"]


def test_a_refusal_says_how_many_are_free_and_how_many_wait():
    ledger = with_count(with_count(with_count(AddressLedger(), nic("one"), 6), nic("two"), 2), nic("one"), 4)
    found = ledger.with_count(nic("three"), 5, PoolChoice(POOLS, ("a",)), now=5)
    assert found == PoolsExhausted(nic("three"), ("a",), asked=5, free=2, quarantined=2)


def test_released_addresses_wait_for_others_and_come_back_to_their_own_nic_at_once():
    ledger = with_count(with_count(AddressLedger(), nic("one"), 6), nic("one"), 4, now=100)
    assert held(with_count(ledger, nic("two"), 2, now=109), nic("two")) == ["10.0.0.12", "10.0.0.13"]
    assert held(with_count(ledger, nic("two"), 2, now=110), nic("two")) == ["10.0.0.8", "10.0.0.9"]
    again = with_count(ledger, nic("one"), 6, now=101)
    assert held(again, nic("one")) == [f"10.0.0.{n}" for n in range(4, 10)]
    assert again.holdings[nic("one")].released == ()


def test_an_address_that_another_set_took_after_the_quarantine_does_not_come_back():
    ledger = with_count(with_count(AddressLedger(), nic("one"), 6), nic("one"), 4, now=100)
    ledger = with_count(ledger, nic("two"), 2, now=200)
    assert held(with_count(ledger, nic("one"), 6, now=201), nic("one"))[4:] == ["10.0.0.12", "10.0.0.13"]


def test_addresses_that_are_seen_or_reserved_are_not_given():
    ledger = with_count(AddressLedger(), nic(), 2, avoided=(address_range("10.0.0.4-10.0.0.6"),))
    assert held(ledger, nic()) == ["10.0.0.7", "10.0.0.8"]


def test_a_block_with_an_excluded_address_has_the_others():
    ledger = with_count(AddressLedger(), nic(), 3, names=("blocks",))
    assert held(ledger, nic()) == ["172.16.0.0-172.16.0.31", "172.16.0.32-172.16.0.63", "172.16.0.64-172.16.0.95"]
    assert str(POOLS["blocks"].own_address(ledger.holdings[nic()].of(1).range)) == "172.16.0.1"
    assert isinstance(ledger.with_count(nic(), 9, PoolChoice(POOLS, ("blocks",)), 0), PoolsExhausted)


def test_a_pool_of_ipv6_does_not_give_the_anycast_address_of_routers():
    assert held(with_count(AddressLedger(), nic(version=6), 15, names=("six",)), nic(version=6))[0] == "fd00::1"


def test_a_disabled_pool_gives_nothing_new_and_takes_nothing_away():
    ledger = with_count(AddressLedger(), nic(), 2)
    off = {"a": POOLS["a"].model_copy(update={"disabled": True})}
    assert isinstance(ledger.with_count(nic(), 3, PoolChoice(off, ("a",)), 0), PoolsExhausted)
    kept = ledger.with_count(nic(), 1, PoolChoice(off, ("a",)), 0)
    assert isinstance(kept, AddressLedger)
    assert held(kept, nic()) == ["10.0.0.4"]


def test_a_set_that_is_gone_holds_nothing_and_its_addresses_wait():
    ledger = without_set(with_count(with_count(AddressLedger(), nic("one"), 10), nic("two"), 0), "one", now=50)
    assert isinstance(ledger.with_count(nic("two"), 1, PoolChoice(POOLS, ("a",)), 59), PoolsExhausted)
    assert len(held(with_count(ledger, nic("two"), 10, now=60), nic("two"))) == 10
    assert ledger.tidied(POOLS, 60).holdings == {}


@pytest.mark.parametrize("index", [0, -1, 4])
def test_there_is_no_address_for_an_index_beyond(index):
    with pytest.raises(IndexError):
        with_count(AddressLedger(), nic(), 3).holdings[nic()].of(index)


PART = '"block":1,"spare":0,"released":[]'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"version":2,"holdings":{}}', "ledger:1:12: version: it was written by another version of vsphere-ai"),
        ("[]", "ledger:1:1: it should be an object"),
        ("{", "ledger:1:1: it is not JSON"),
        ('{"version":1,"vms":1}', "ledger:1:1: holdings: it is missing"),
        ('{"version":1,"vms":1,"holdings":{"a/b/4":{"held":["p 10.0.0.1"]}}}', "holdings.a/b/4.block: it is missing"),
        (f'{{"version":1,"vms":1,"holdings":{{"a/b":{{"held":[],{PART}}}}}}}', "a/b"),
        (f'{{"version":1,"vms":1,"holdings":{{"a/b/4":{{"held":["p"],{PART}}}}}}}', "not enough values"),
    ],
)
def test_a_text_that_is_no_ledger_is_refused_with_its_place(text, message):
    with pytest.raises(Conflict) as refused:
        read_ledger(text)
    assert refused.value.rule == "leases.unreadable"
    assert message in refused.value.message


class Leases(RuleBasedStateMachine):
    """Sets grow, shrink and go in any order, as time passes."""

    def __init__(self) -> None:
        super().__init__()
        self.ledger, self.now = AddressLedger(), 0
        self.free_since: dict[tuple[str, int], int] = {}
        self.last: dict[NicHolding, list[tuple[str, AddressRange]]] = {}

    def of(self, which: NicHolding) -> list[tuple[str, AddressRange]]:
        holding = self.ledger.holdings.get(which)
        indices = range(1, holding.count + 1) if holding else ()
        return [(holding.of(i).pool, holding.of(i).range) for i in indices]

    @rule(name=st.sampled_from("xyz"), count=st.integers(0, 12), pools=st.sampled_from([("a",), ("b",), ("a", "b")]))
    def resize(self, name, count, pools):
        which, before = nic(name), self.of(nic(name))
        found = self.ledger.with_count(which, count, PoolChoice(POOLS, pools), self.now)
        if isinstance(found, PoolsExhausted):
            assert count > len(before)
            assert self.room(which, pools) < count - len(before), "there was room"
            return
        self.ledger = found
        after = self.of(which)
        assert len(after) == count
        assert after[: len(before)] == before[:count], "a VM that stays keeps its address"
        for pool, span in after[len(before) :]:
            assert pool in pools
            owner = self.last.get((pool, span.first))
            waited = self.now - self.free_since.get((pool, span.first), -100)
            assert waited >= POOLS[pool].quarantine or owner == which
        for pool, span in before[count:]:
            self.free_since[pool, span.first], self.last[pool, span.first] = self.now, which

    @rule(name=st.sampled_from("xyz"))
    def destroy(self, name):
        for pool, span in self.of(nic(name)):
            self.free_since[pool, span.first], self.last[pool, span.first] = self.now, nic(name)
        self.ledger = without_set(self.ledger, name, self.now)
        assert self.of(nic(name)) == []

    @rule(seconds=st.integers(1, 12))
    def wait(self, seconds):
        self.now += seconds
        self.ledger = self.ledger.tidied(POOLS, self.now)

    @rule()
    def write_and_read(self):
        self.ledger = read_ledger(ledger_text(self.ledger))

    def room(self, which: NicHolding, pools: tuple[str, ...]) -> int:
        held = {(p, r.first) for name in "xyz" for p, r in self.of(nic(name))}
        every = {(p, n) for p in pools for each in POOLS[p].usable() for n in range(each.first, each.last + 1)}
        return sum(
            1
            for p, n in every - held
            if self.now - self.free_since.get((p, n), -100) >= POOLS[p].quarantine or self.last.get((p, n)) == which
        )

    @invariant()
    def no_address_is_given_twice(self):
        every = [each for name in "xyz" for each in self.of(nic(name))]
        assert len(every) == len(set(every))
        for pool, span in every:
            assert any(span.first >= each.first and span.last <= each.last for each in POOLS[pool].usable())


Leases.TestCase.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
TestLeases = Leases.TestCase


@given(st.lists(st.integers(0, 30), min_size=1, max_size=12), st.booleans())
@settings(max_examples=80, deadline=None)
def test_a_pool_is_filled_exactly_and_emptied_without_a_rest(counts, blocks):
    """Sets one after another until the pool is full: the last one gets exactly the rest."""
    pool = (
        AddressPool(subnet="10.0.0.0/22", per_node=27)
        if blocks
        else AddressPool(subnet="10.0.0.0/24", ranges=("10.0.0.1-10.0.0.200",))
    )
    pools, ledger = {"p": pool}, AddressLedger()
    room = sum(each.size for each in pool.usable()) // pool.block
    for number, count in enumerate(counts):
        found = ledger.with_count(nic(f"s{number}"), count, PoolChoice(pools, ("p",)), 0)
        assert isinstance(found, AddressLedger) == (count <= room)
        if isinstance(found, AddressLedger):
            ledger, room = found, room - count
    ledger = ledger.with_count(nic("rest"), room, PoolChoice(pools, ("p",)), 0)
    assert isinstance(ledger, AddressLedger)
    assert isinstance(ledger.with_count(nic("more"), 1, PoolChoice(pools, ("p",)), 0), PoolsExhausted)
    for each in {n.set for n in ledger.holdings}:
        ledger = without_set(ledger, each, 0)
    assert ledger.tidied(pools, 600).holdings == {}
