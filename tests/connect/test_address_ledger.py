"""The address ledger in vCenter: killed at every call, with answers lost, values cut short, and a lock that is gone."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

from vsphere_ai.addresses.holding import AddressLedger, HeldRange, Holding, NicHolding
from vsphere_ai.addresses.ledger_text import ledger_text, read_ledger
from vsphere_ai.connect import address_ledger
from vsphere_ai.connect.address_ledger import HEAD, MOST_PARTS, StoredText, read_text, write_text
from vsphere_ai.errors import Conflict, Denied, Locked, NotVerified, OutcomeUnknown, StepFailed, Unreachable, VimFault
from vsphere_ai.model.facts import Facts
from vsphere_ai.model.names.networks import AddressRange

ROOT, MANAGER, LOCK = "Folder:root", "CustomFieldsManager:fields", "Folder:lock"
START = datetime(2026, 1, 1, tzinfo=UTC)


class Killed(BaseException):
    """The process is no more."""


class VCenter:
    """Custom attributes of one folder; `longest` is what a value may have, `refuses` how a longer one is treated."""

    name = "vcenter"

    def __init__(self, longest=1 << 30, *, refuses=False):
        self.fields, self.values, self.longest, self.refuses = {}, {}, longest, refuses
        self.locked, self.clock, self.calls, self.unreadable = True, START, [], {}
        self.before = self.after = lambda number, what: None

    def _tick(self, what, work=lambda: None):
        self.before(len(self.calls), what)
        self.calls.append(what)
        found = work()
        self.after(len(self.calls) - 1, what)
        return found

    def service(self, name):
        return {"rootFolder": ROOT, "customFieldsManager": MANAGER}.get(name)

    def now(self):
        return self.clock

    def read_objects(self, refs, _paths):
        if list(refs) == [LOCK]:
            return {LOCK: Facts(LOCK, {"name": "lock"})} if self.locked else {}
        shown = {
            "availableField": tuple({"key": key, "name": name} for name, key in self.fields.items()),
            "customValue": tuple({"key": key, "value": value} for key, value in self.values.items()),
        }
        return self._tick("read", lambda: {ROOT: Facts(ROOT, shown, dict(self.unreadable))})

    def call(self, ref, method, args):
        assert ref == MANAGER
        return self._tick(
            f"{method} {args.get('name') or args.get('key')}", lambda: getattr(self, f"_{method}")(**args)
        )

    def _AddCustomFieldDef(self, name, moType):  # noqa: N803
        assert moType == "Folder"
        if name in self.fields:
            raise VimFault("a", "", {"_typeName": "DuplicateName"})
        self.fields[name] = 100 + len(self.fields)

    def _SetField(self, entity, key, value):
        assert entity == ROOT
        assert key in self.fields.values()
        if len(value) > self.longest and self.refuses:
            raise VimFault("too long", "", {"_typeName": "InvalidArgument"})
        self.values[key] = value[: self.longest]


def lock(vcenter, *, expires=START + timedelta(seconds=60)):
    return SimpleNamespace(vcenter=vcenter, ref=LOCK, expires=expires)


def write(vcenter, text):
    return write_text(lock(vcenter), read_text(vcenter), text)


def text(size):
    """A text that does not get shorter when it is packed."""
    return "".join(format(pow(7, n, 0xFFFFFFFFFFFFFFC5), "016x") for n in range(size // 16))


def test_there_is_no_text_at_first():
    assert read_text(VCenter()) == StoredText()


def test_what_was_written_is_read_and_a_later_text_replaces_it():
    vcenter = VCenter()
    for each in ("one", "two", "three", ""):
        assert write(vcenter, each).text == each
        assert read_text(vcenter).text == each


def test_a_text_that_is_the_same_is_not_written_again():
    vcenter = VCenter()
    write(vcenter, "one")
    begun = len(vcenter.calls)
    write(vcenter, "one")
    assert set(vcenter.calls[begun:]) == {"read"}


@pytest.mark.parametrize("refuses", [False, True])
@pytest.mark.parametrize("longest", [255, 4_000, 40_000])
def test_a_text_longer_than_a_value_is_spread_over_numbered_ones(longest, refuses):
    vcenter = VCenter(longest, refuses=refuses)
    for each in (text(30_000), "short", text(20_000)):
        write(vcenter, each)
        assert read_text(vcenter).text == each


@pytest.mark.parametrize("refuses", [False, True])
def test_a_text_that_does_not_fit_at_all_is_refused_and_the_old_one_stays(refuses):
    vcenter = VCenter(255, refuses=refuses)
    write(vcenter, "old")
    with pytest.raises(NotVerified) as refusal:
        write(vcenter, text(250 * MOST_PARTS * 2))
    assert refusal.value.rule == "leases.too-long"
    assert read_text(vcenter).text == "old"


def test_a_vcenter_that_keeps_too_little_of_a_value_is_noticed():
    vcenter = VCenter(longest=100)
    with pytest.raises(NotVerified):
        write(vcenter, text(4_000))


def scattered(count):
    """A ledger in which every lease is a range of its own, of a pool that has become full of holes."""
    numbers = [0x0A000000 + 3 * (n * 7919 % count) for n in range(count)]
    sets = 100
    return AddressLedger(
        {
            NicHolding(f"training-{s}", "rail1", 4): Holding(
                tuple(
                    HeldRange("rail1", AddressRange(4, n, n))
                    for n in numbers[s * count // sets : (s + 1) * count // sets]
                )
            )
            for s in range(sets)
        }
    )


@pytest.mark.parametrize("longest", [255, 4_000, 32_000])
def test_ten_thousand_leases_fit_however_scattered_they_are(longest):
    vcenter, ledger = VCenter(longest), scattered(10_000)
    assert sum(holding.count for holding in ledger.holdings.values()) == 10_000
    write(vcenter, ledger_text(ledger))
    assert read_ledger(read_text(vcenter).text) == ledger


def cut(vcenter, at, *, late):
    """Let the process die at a call: before it has an effect, or (`late`) right after."""

    def die(number, _what):
        if number == at:
            raise Killed

    vcenter.before, vcenter.after = (vcenter.before, die) if late else (die, vcenter.after)


@pytest.mark.parametrize("late", [False, True])
def test_a_writer_that_dies_at_any_call_leaves_the_old_text_or_the_new_one(late):
    for at in itertools.count():
        vcenter = VCenter(255)
        write(vcenter, text(1_000))
        begun = len(vcenter.calls)
        cut(vcenter, begun + at, late=late)
        try:
            write(vcenter, text(3_008))
        except Killed:
            pass
        else:
            break
        vcenter.before = vcenter.after = lambda *_: None
        assert read_text(vcenter).text in (text(1_000), text(3_008))
        write(vcenter, "and on")  # the next one is not held up by what was left
        assert read_text(vcenter).text == "and on"
    assert at > 10


@pytest.mark.parametrize("happens", [True, False])
@pytest.mark.parametrize("method", ["AddCustomFieldDef", "SetField"])
def test_an_answer_that_is_lost_is_settled_by_reading(method, happens):
    for at in itertools.count():
        vcenter, seen, lost = VCenter(255), itertools.count(), []

        def lose(_number, what, at=at, seen=seen, lost=lost):
            if what.startswith(method) and next(seen) == at:
                lost.append(what)
                raise OutcomeUnknown(what)

        vcenter.before, vcenter.after = (vcenter.before, lose) if happens else (lose, vcenter.after)
        try:
            write(vcenter, text(1_000))
            assert read_text(vcenter).text == text(1_000)
        except StepFailed:
            assert (method, happens) == ("AddCustomFieldDef", False)
            assert read_text(vcenter) == StoredText()
        if not lost:
            break
    assert at > 3


def test_a_head_that_does_not_arrive_leaves_the_old_text_and_says_so():
    vcenter = VCenter()
    write(vcenter, "one")
    head = f"SetField {vcenter.fields[HEAD]}"

    def lose(_number, what):
        if what == head:
            raise OutcomeUnknown(what)

    vcenter.before = lose
    with pytest.raises(OutcomeUnknown) as refusal:
        write(vcenter, "two")
    assert refusal.value.rule == "leases.unknown"
    assert read_text(vcenter).text == "one"


def test_a_text_that_was_changed_since_it_was_read_is_not_overwritten():
    vcenter = VCenter()
    before = write(vcenter, "one")
    write(vcenter, "two")
    write(vcenter, "one")  # the same words again are another state
    with pytest.raises(Conflict) as refusal:
        write_text(lock(vcenter), before, "three")
    assert refusal.value.rule == "leases.changed"
    assert read_text(vcenter).text == "one"


def test_another_writer_is_noticed_as_late_as_before_the_head():
    vcenter = VCenter()
    before, other = write(vcenter, "one"), []

    def interfere(_number, what):
        if what.startswith("SetField") and not other:
            other.append(what)
            vcenter.values[vcenter.fields[HEAD]] = "1 9 b 1 " + 32 * "0"

    vcenter.after = interfere
    with pytest.raises(Conflict):
        write_text(lock(vcenter), before, "two")


@pytest.mark.parametrize("gone", ["removed", "expired", "removed while writing"])
def test_nothing_counts_without_the_lock(gone):
    vcenter = VCenter()
    before = write(vcenter, "one")

    def lose(_number, what):
        vcenter.locked = vcenter.locked and not what.startswith("SetField")

    if gone == "removed while writing":
        vcenter.after = lose
    vcenter.locked = gone != "removed"
    with pytest.raises(Locked) as refusal:
        write_text(lock(vcenter, expires=START + timedelta(seconds=0 if gone == "expired" else 60)), before, "two")
    assert refusal.value.rule == "lock.lost"
    assert read_text(vcenter).text == "one"


def test_an_unreadable_attribute_is_not_taken_for_an_empty_ledger():
    vcenter = VCenter()
    vcenter.unreadable = {"customValue": "no permission"}
    with pytest.raises(Denied):
        read_text(vcenter)


def test_an_outage_behind_the_last_write_leaves_the_outcome_open():
    vcenter = VCenter()
    write(vcenter, "one")
    head = f"SetField {vcenter.fields[HEAD]}"

    def cut_off(_number, what):
        if what == "read" and head in vcenter.calls[begun:]:
            raise Unreachable("no answer")

    begun, vcenter.before = len(vcenter.calls), cut_off
    with pytest.raises(OutcomeUnknown) as refusal:
        write(vcenter, "two")
    assert refusal.value.rule == "leases.unknown"


@pytest.mark.parametrize(
    "damage",
    [
        lambda values, keys: values.update({keys[HEAD]: "what an operator typed"}),
        lambda values, keys: values.update({keys[f"{HEAD} a1"]: "AAAA"}),
        lambda values, keys: values.pop(keys[f"{HEAD} a1"]),
        lambda values, keys: (
            values.update({keys[HEAD]: f"1 1 a 1 {address_ledger._digest('AAAA')}"})
            or values.update({keys[f"{HEAD} a1"]: "AAAA"})
        ),
    ],
)
def test_a_damaged_text_is_refused_and_not_overwritten(damage):
    vcenter = VCenter()
    before = write(vcenter, "one")
    damage(vcenter.values, vcenter.fields)
    with pytest.raises(Conflict) as refusal:
        read_text(vcenter)
    assert refusal.value.rule == "leases.unreadable"
    if vcenter.values[vcenter.fields[HEAD]] != before.head:
        with pytest.raises(Conflict):
            write_text(lock(vcenter), before, "two")
