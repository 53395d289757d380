"""Commands of a transition, carried out on a small model of the driver that knows none of the search."""

import random
import re

import pytest

from vsphere_ai.gpu.catalog import board, boards
from vsphere_ai.gpu.mig.layout import parse
from vsphere_ai.gpu.mig.moves import enabling, moves, moves_on_paper
from vsphere_ai.gpu.mig.placement import Impossible, transition
from vsphere_ai.gpu.mig.search import Instance, Transition

PCI = "0000:3b:00.0"
A100 = board("a100-40gb")


class Driver:
    """What the driver accepts: legal starts, free slices, compute instances before their GPU instance."""

    def __init__(self, of, present):
        self.board = of
        self.next_id = 90
        self.standing = {i.gi_id: (i.profile_name, i.start) for i in present}
        self.compute = {(PCI, i.gi_id): [0] for i in present}

    def cells(self, name, start):
        return set(range(start, start + self.board.profile(name).memory_slices))

    def run(self, argv):
        words = " ".join(argv)
        assert words.startswith("nvidia-smi mig -i 00000000:3B:00.0 "), words
        verb = words.split()[4]
        if verb == "-dci":
            gi, ci = map(int, re.search(r"-gi (\d+) -ci (\d+)$", words).groups())
            self.compute[PCI, gi].remove(ci)
        elif verb == "-dgi":
            gi = int(re.search(r"-gi (\d+)$", words)[1])
            assert not self.compute[PCI, gi], "in use by another client"
            del self.standing[gi]
        else:
            assert words.endswith(" -C")
            for item in words.split()[5].split(","):
                number, start = map(int, item.split(":"))
                profile = next(p for p in self.board.profiles if p.id == number)
                assert start in profile.starts
                taken = set().union(*(self.cells(*s) for s in self.standing.values()))
                assert not taken & self.cells(profile.name, start), "insufficient resources"
                self.standing[self.next_id] = (profile.name, start)
                self.next_id += 1


def some_state(of, dice):
    found, taken = [], set()
    for number in range(dice.randrange(6)):
        profile = dice.choice(of.profiles)
        start = dice.choice(profile.starts)
        cells = set(range(start, start + profile.memory_slices))
        extra = profile.media and any("+me" in i.profile_name for i in found)
        if not cells & taken and not extra:
            taken |= cells
            found.append(Instance(profile.name, start, number + 1, in_use=dice.random() < 0.3))
    return found


@pytest.mark.parametrize("of", [b for b in boards() if b.profiles], ids=lambda b: b.key)
def test_the_commands_end_in_the_wanted_state(of):
    dice, reached = random.Random(of.key), 0
    for _ in range(40):
        present = some_state(of, dice)
        wanted = parse([dice.choice(of.profiles).name for _ in range(dice.randrange(1, 4))])
        way = transition(of, present, wanted)
        if isinstance(way, Impossible):
            continue
        reached += 1
        driver = Driver(of, present)
        for move in moves(of, way, PCI, driver.compute):
            driver.run(move.argv)
        assert sorted(name for name, _ in driver.standing.values()) == sorted(i.profile for i in wanted)
        assert {i.gi_id for i in present if i.in_use} <= set(driver.standing)
    assert reached > 3


def test_the_words_of_a_real_move():
    present = [Instance("1g.5gb", 0, 7), Instance("3g.20gb", 4, 2)]
    way = transition(A100, present, parse("4g.20gb,3g.20gb"))
    found = [(" ".join(m.argv[4:]), m.summary) for m in moves(A100, way, PCI, {(PCI, 7): [0, 1]})]
    assert found == [
        ("-dci -gi 7 -ci 0", f"destroy compute instance 0 of GPU instance 7 on {PCI}"),
        ("-dci -gi 7 -ci 1", f"destroy compute instance 1 of GPU instance 7 on {PCI}"),
        ("-dgi -gi 7", f"destroy 1g.5gb (GPU instance 7) on {PCI}"),
        ("-cgi 5:0 -C", f"create 4g.20gb:0 on {PCI}"),
    ]


def test_an_instance_without_a_number_cannot_be_destroyed():
    assert list(moves(A100, Transition((), (Instance("1g.5gb", 0),), ()), PCI, {})) == []


def test_on_paper_what_nobody_knows_is_left_to_the_reader():
    way = transition(A100, [Instance("1g.5gb", 0)], parse("4g.20gb"))
    assert [" ".join(m.argv) for m in moves_on_paper(A100, way)] == [
        "nvidia-smi mig -i GPU -dci -gi ID",
        "nvidia-smi mig -i GPU -dgi -gi ID",
        "nvidia-smi mig -i GPU -cgi 5:0 -C",
    ]
    assert list(moves_on_paper(A100, Transition((), (), ()))) == []


@pytest.mark.parametrize(
    ("key", "pending", "expected"),
    [
        ("a100-40gb", False, ["nvidia-smi -i 00000000:3B:00.0 -mig 1", "reboot", "query"]),
        ("h100-80gb-sxm", False, ["nvidia-smi -i 00000000:3B:00.0 -mig 1", "query"]),
        ("a100-40gb", True, ["reboot", "query"]),
    ],
)
def test_mig_is_switched_on_first_and_the_mode_read_again(key, pending, expected):
    made = [" ".join(m.argv) for m in enabling(board(key), PCI, pending=pending)]
    assert ["query" if "mig.mode.current" in line else line for line in made] == expected
