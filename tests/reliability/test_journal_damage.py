"""T-06, T-08: a journal that was damaged, and a disk that is full: nothing is done that is not written down."""

from __future__ import annotations

import contextlib
import copy
import json
import shutil
import sqlite3

import pytest
from reliability.harness import Spec, Tool, effects, journals
from support.gates import until
from support.seeds import ALL, FULL, cases, chance
from support.small_disk import KIB, SmallDisk

UNHEARD = 8
ONLY_CLEANUP = "only its cleanup is"
PUTS_BACK = {"ExitMaintenanceMode_Task", "PowerOnVM_Task"}
OPTION = "Net.PVRDMAVmknic"
SOME = 3
"""Of the places where the journal is written, by default; else every one has its turn."""


@pytest.fixture(scope="module")
def killed():
    """What the case before this one left, when it changed nothing: a journal and how many changes there were."""
    return {}


def half_way(mission):
    """A point at which vCenter works on nothing but the request that has just left."""
    return next(p for p in mission.points if p.startswith("after call | esx02.lab.local | set Net.PVRDMA"))


@pytest.fixture
def broken_off(mission, killed, tmp_path_factory):
    """A run that was killed half way, and its journal in files."""
    if killed.get("changes") != len(mission.lab.get("/lab/ledger")["entries"]) or not killed:
        mission.lab.post("/lab/reset")
        assert mission.apply(Spec(at=half_way(mission))).code == 137
        # the request left just before the run died: what vCenter does for it belongs to what the run did
        until(lambda: any(host == "esx02.lab.local" and OPTION in given for host, _, given in effects(mission.lab)))
        kept = tmp_path_factory.mktemp("kept")
        for file in journals()[0].parent.iterdir():
            shutil.copy2(file, kept / file.name)
        killed.update(changes=len(mission.lab.get("/lab/ledger")["entries"]), kept=kept, state=effects(mission.lab))
    return killed


def restore(kept, folder, *, folded):
    """Put the journal back; `folded` as a process that ended in order leaves it, without a log beside it."""
    for file in folder.iterdir():
        file.unlink()
    for file in kept.iterdir():
        shutil.copy2(file, folder / file.name)
    (path,) = folder.glob("*.db")
    if folded:
        with contextlib.closing(sqlite3.connect(path)) as db:
            db.execute("pragma wal_checkpoint(truncate)")
    return path


def damage(path, random):
    """Cut a file off at a random place, or flip a bit of it; say what was done."""
    data = bytearray(path.read_bytes())
    place = random.randrange(len(data))
    if random.random() < 0.4:
        path.write_bytes(data[:place])
        return f"{path.name} cut off at {place} of {len(data)}"
    data[place] ^= 1 << random.randrange(8)
    path.write_bytes(data)
    return f"{path.name}: a bit flipped at {place} of {len(data)}"


@pytest.mark.parametrize("number", cases(4, 300))
def test_a_damaged_journal_is_refused_or_read_as_far_as_it_is_whole(mission, broken_off, killed, number):
    random = chance("damage", number)
    folder = journals_folder()
    path = restore(broken_off["kept"], folder, folded=number % 2)
    files = [f for f in (path, path.with_name(path.name + "-wal")) if f.exists() and f.stat().st_size]
    what = damage(random.choice(files), random)
    print(what)
    ended = mission.tool("resume")
    if ended.code == 0:
        killed.clear()
        mission.judge(f"{what}\n{ended.text}", put_back=False)
        return
    # a log cut back to an earlier moment is whole, but the farm does not fit it any more: then the plan is refused, and
    # at most what the log still tells of is put back
    outdated = ended.code == 1 and ("nothing was changed" in ended.text or ONLY_CLEANUP in ended.text)
    assert outdated or (ended.code == UNHEARD and "vsphere-ai" in ended.text), f"{what}\n{ended.code} {ended.text}"
    more = effects(mission.lab) - broken_off["state"]
    assert {call for _, call, _ in more} <= (PUTS_BACK if ONLY_CLEANUP in ended.text else set()), f"{what}: {more}"
    if more:
        killed.clear()


def journals_folder():
    from vsphere_ai.runs.journal import runs_dir

    return runs_dir()


@pytest.fixture
def small_disk(mission, tmp_path, monkeypatch):
    """The state folder on a small disk, and the mission with a command line that has it."""
    disk = SmallDisk(tmp_path / "disk")
    monkeypatch.setenv("VSPHERE_AI_STATE_DIR", str(disk.folder))
    disk.mission = copy.copy(mission)
    disk.mission.tool = Tool(tmp_path, disk.within)
    yield disk
    disk.mission.tool.close()
    disk.close()


@pytest.mark.parametrize("leave", [*range(0, 257, 16)] if ALL else [0, 64, 256] if FULL else [0, 64])
def test_a_disk_that_is_really_full(mission, small_disk, leave):
    """Not every write fails alike: the journal, its log and its index grow at different moments."""
    small_disk.fill(leave * KIB)
    ended = small_disk.mission.apply()
    print(f"{leave} KiB were free, {small_disk.free()} bytes are left, exit {ended.code}")
    assert ended.code == UNHEARD, ended.text
    small_disk.clear()
    small_disk.remount("size=16m")
    books = small_disk.journals()
    if not books:
        assert not effects(mission.lab), "it was changed without a journal"
    for path in books:
        assert f"vsphere-ai resume {path.stem}" in ended.text, ended.text
        sent = unwritten(mission.lab, path)
        assert not sent, f"done, but not written down: {sent}\n{ended.text}"
    resumed = small_disk.mission.go_on()
    small_disk.mission.judge(resumed.text, code=resumed.code, stopped=1)


@pytest.mark.parametrize("lock", ["local", "none"])
def test_a_disk_that_cannot_be_written(mission, small_disk, lock):
    """T-09: not even root can write there; before anything was sent, and again when it is to be finished."""
    tool, begun = small_disk.mission.tool, ("apply", "-i", mission.inventory, mission.playbook, "--yes", "--lock", lock)
    small_disk.remount("ro")
    ended = tool(*begun)
    assert ended.code == UNHEARD, ended.text
    assert str(small_disk.folder) in ended.text
    assert "Read-only file system" in ended.text
    assert not effects(mission.lab)
    small_disk.remount("rw,size=16m")
    assert tool(*begun, spec=Spec(at=half_way(mission))).code == 137
    small_disk.remount("ro")
    done = effects(mission.lab)
    ended = tool("resume", "--lock", lock)
    assert ended.code == UNHEARD, ended.text
    assert str(small_disk.folder) in ended.text
    assert effects(mission.lab) == done
    small_disk.remount("rw")
    small_disk.mission.converged()


def full_points(points):
    """Every place where the journal is written."""
    return [p for p in points if p.startswith(("before begin", "after reply", "before resolve", "before write"))]


@pytest.mark.parametrize("number", cases(SOME, 160))
def test_a_full_disk(mission, number):
    """From one write on nothing more fits: what was begun ends, nothing is sent any more, and there is a way on."""
    places = full_points(mission.points)
    if number >= len(places):
        pytest.skip(f"the plan writes {len(places)} times")
    place = places[number] if FULL else chance("full").sample(places, k=SOME)[number]
    print(place)
    ended = mission.apply(Spec(at=place, act="fill-disk"))
    assert ended.code == UNHEARD, f"{place}\n{ended.text}"
    if not journals():  # it could not even be begun
        assert not effects(mission.lab), f"{place}: changed without a journal\n{ended.text}"
    for path in journals():
        assert f"vsphere-ai resume {path.stem}" in ended.text, ended.text
        sent = unwritten(mission.lab, path)
        assert not sent, f"{place}: done, but not written down: {sent}\n{ended.text}"
    mission.converged(stopped=1)


STEPS = {
    "ShutdownGuest": "shut down",
    "EnterMaintenanceMode_Task": "enter maintenance mode",
    "UpdateGraphicsConfig": "set graphics",
    "UpdateOptions": "set Net.PVRDMAVmknic",
    "EnableRuleset": "open firewall",
    "nvidia-smi -mig": "MIG enabled on",
    "nvidia-smi mig -cgi": "create ",
    "esxcli system shutdown reboot": "reboot",
    "RebootHost_Task": "reboot",
    "UpgradeVM_Task": "upgrade to",
    "ReconfigVM_Task": "reconfigure",
}
"""How the steps begin that cause what the ledger tells."""
WITHOUT = ("PowerOnVM_Task", "ExitMaintenanceMode_Task")
"""What puts back, and is done also where it cannot be written down."""


def unwritten(lab, path):
    """What took effect though the journal has no step for it: the same object, what was done, and to which GPU."""
    with contextlib.closing(sqlite3.connect(path)) as db:
        known = db.execute("select target, summary from step").fetchall()
    found = []
    for name, call, detail in (key for key in effects(lab) if key[1] not in WITHOUT):
        gpu = json.loads(detail).get("gpu", "")
        if not any(target == name and words.startswith(STEPS[call]) and gpu in words for target, words in known):
            found.append((name, call, gpu))
    return found
