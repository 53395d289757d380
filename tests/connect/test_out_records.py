"""Records of what runs have out of service: killed at every call, with answers lost, and values cut short."""

from __future__ import annotations

import pytest

from vsphere_ai.connect import out_records
from vsphere_ai.connect.out_records import ATTRIBUTE, SIZES, OutRecord, among, home_among, read_records
from vsphere_ai.connect.vcenter_lock import HOME
from vsphere_ai.errors import OutcomeUnknown, StepFailed, Storage, VimFault
from vsphere_ai.model.facts import Facts

ROOT, MANAGER, SEARCH = "Folder:root", "CustomFieldsManager:fields", "SearchIndex:index"
RUN = "20261128-140256-8186"


class Killed(BaseException):
    """The process is no more."""


def fault(name, **more):
    return VimFault(name, "", {"_typeName": name, **more})


class VCenter:
    """Folders and one custom attribute; `longest` is what a value may have, `refuses` how a longer one is treated."""

    name = "vcenter"

    def __init__(self, longest=1 << 30, *, refuses=False):
        self.folders, self.values, self.keys = {ROOT: (None, "root")}, {}, {}
        self.longest, self.refuses, self.calls = longest, refuses, []
        self.before = self.after = lambda number, what: None

    def service(self, name):
        return {"rootFolder": ROOT, "customFieldsManager": MANAGER, "searchIndex": SEARCH}[name]

    def read_objects(self, refs, _paths):
        return self._tick("read", lambda: {ref: self._facts(ref) for ref in refs if ref in self.folders})

    def _facts(self, ref):
        shown = {
            "name": self.folders[ref][1],
            "childEntity": tuple(r for r, (parent, _) in self.folders.items() if parent == ref),
            "availableField": tuple({"key": key, "name": name} for name, key in self.keys.items()),
            "customValue": ({"key": 7, "value": self.values[ref]},) if ref in self.values else (),
        }
        return Facts(ref, shown)

    def call(self, ref, method, args, *, repeatable=False):
        try:
            return self._tick(method, lambda: getattr(self, f"_{method}")(ref, args))
        except OutcomeUnknown:
            if not repeatable:
                raise
        return self._tick(method, lambda: getattr(self, f"_{method}")(ref, args))

    def run_task(self, ref, method, *, timeout):
        def destroy():
            if ref not in self.folders:
                raise fault("ManagedObjectNotFound")
            for child in [r for r, (parent, _) in self.folders.items() if parent == ref]:
                del self.folders[child]
            del self.folders[ref]

        assert method == "Destroy_Task"
        self._tick(method, destroy)

    def _tick(self, what, work):
        self.before(len(self.calls), what)
        self.calls.append(what)
        found = work()
        self.after(len(self.calls) - 1, what)
        return found

    def _FindChild(self, _ref, args):
        own = (r for r, each in self.folders.items() if each == (args["entity"], args["name"]))
        return next(own, None)

    def _CreateFolder(self, ref, args):
        assert len(args["name"]) <= 80
        if (ref, args["name"]) in self.folders.values():
            raise fault("DuplicateName")
        made = f"Folder:{len(self.calls)}"
        self.folders[made] = ref, args["name"]
        return made

    def _AddCustomFieldDef(self, _ref, args):
        if args["name"] in self.keys:
            raise fault("DuplicateName")
        self.keys[args["name"]] = 7

    def _SetField(self, _ref, args):
        if len(args["value"]) > self.longest and self.refuses:
            raise fault("InvalidArgument")
        self.values[args["entity"]] = args["value"][: self.longest]


def noise(size):
    """A text that does not get smaller when it is packed."""
    import random

    return (
        "".join(chr(random.Random(size).randrange(32, 0x2FFF)) for _ in range(size))
        if size < 2
        else "".join(map(chr, random.Random(size).choices(range(32, 0x2FFF), k=size)))
    )


def texts(vcenter):
    return [each.text for each in read_records(vcenter)]


def test_a_record_is_replaced_as_a_whole_with_one_call():
    vcenter = VCenter()
    record = OutRecord(vcenter, RUN)
    record.write("a longer text")
    begun = len(vcenter.calls)
    record.write("short")
    assert vcenter.calls[begun:] == ["SetField"], "what is no longer than before is not read back"
    (stored,) = read_records(vcenter)
    assert (stored.run, stored.text, stored.damage) == (RUN, "short", "")
    assert record.remove()
    assert read_records(vcenter) == ()
    assert not OutRecord(vcenter, RUN).remove()


@pytest.mark.parametrize("refuses", [True, False])
@pytest.mark.parametrize("longest", [1 << 30, *SIZES])
def test_a_value_that_vcenter_does_not_keep_whole_is_written_in_parts(longest, refuses):
    vcenter = VCenter(longest, refuses=refuses)
    record = OutRecord(vcenter, RUN)
    for size in (20, 2_000, 300, 5_000, 1):
        text = noise(size)
        record.write(text)
        assert texts(vcenter) == [text]
    parts = [name for _, name in vcenter.folders.values() if name[0].isdigit()]
    assert len(parts) <= 1, "parts that nothing leads to are removed"
    assert record.remove()


def test_what_vcenter_keeps_in_no_way_is_an_error_that_says_so():
    vcenter = VCenter(100)
    with pytest.raises(Storage, match="does not keep") as raised:
        OutRecord(vcenter, RUN).write(noise(500))
    assert raised.value.rule == "out-record.not-written"
    assert "max_unavailable" in raised.value.remedy


@pytest.mark.parametrize("longest", [1 << 30, 250])
def test_a_process_that_dies_at_any_call_leaves_the_old_text_or_the_new_one(longest):
    old, new = noise(900), noise(800)
    reached = 0
    while True:
        vcenter = VCenter(longest)
        OutRecord(vcenter, RUN).write(old)
        begun = len(vcenter.calls)

        def die(number, _what, at=begun + reached):
            if number == at:
                raise Killed

        vcenter.before = die
        try:
            OutRecord(vcenter, RUN).write(new)
        except Killed:
            vcenter.before = lambda number, what: None
            assert texts(vcenter) in ([old], [new])
            reached += 1
            continue
        assert reached >= 4
        return


@pytest.mark.parametrize("what", ["CreateFolder", "SetField", "AddCustomFieldDef"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_an_answer_that_is_lost_is_no_lost_record(what, when):
    vcenter, lost = VCenter(), []

    def lose(_number, call):
        if call == what and len(lost) < 1:
            lost.append(call)
            raise OutcomeUnknown("the answer was lost")

    setattr(vcenter, when, lose)
    record = OutRecord(vcenter, RUN)
    record.write("text")
    assert lost
    assert texts(vcenter) == ["text"]


@pytest.mark.parametrize("value", ["parts 3 2 0123456789abcdef0123456789abcdef", "%%%", "AAAA", "eJw="])
def test_what_cannot_be_read_is_damage_and_not_nothing(value):
    vcenter = VCenter()
    OutRecord(vcenter, RUN).write("text")
    (ref,) = (r for r, (_, name) in vcenter.folders.items() if name.startswith("out "))
    vcenter.values[ref] = value
    (stored,) = read_records(vcenter)
    assert stored.damage
    assert stored.text == ""


def test_a_record_that_was_only_begun_has_nothing_out():
    vcenter = VCenter()

    def die(_number, what):
        if what == "SetField":
            raise Killed

    vcenter.before = die
    with pytest.raises(Killed):
        OutRecord(vcenter, RUN).write("text")
    (stored,) = read_records(vcenter)
    assert (stored.text, stored.damage) == ("", "")


def test_what_someone_else_has_put_into_a_record_is_not_destroyed():
    vcenter = VCenter()
    record = OutRecord(vcenter, RUN)
    record.write("text")
    (ref,) = (r for r, (_, name) in vcenter.folders.items() if name.startswith("out "))
    vcenter.folders["Folder:mine"] = ref, "mine"
    vcenter.folders["HostSystem:h"] = "Folder:mine", "esx01"
    with pytest.raises(StepFailed, match="not ours"):
        record.remove()


def test_records_are_seen_among_what_was_read():
    folders = {
        "Folder:h": {"name": HOME, "parent": ROOT},
        "Folder:o": {"name": f"out {RUN}", "parent": "Folder:h"},
        "Folder:l": {"name": "lock", "parent": "Folder:h"},
        "Folder:x": {"name": f"out {RUN}", "parent": "Folder:vm"},
    }
    objects = {ref: Facts(ref, values) for ref, values in folders.items()}
    assert among(objects) == ("Folder:o",)
    assert home_among(objects, ROOT) == "Folder:h"
    assert home_among({}, ROOT) == ""
    assert out_records.PREFIX == "out "
    assert ATTRIBUTE == "vsphere-ai out of service"
