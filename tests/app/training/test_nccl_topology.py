"""NCCL topology files of generated farms: the file is the planted tree, whatever the farm looks like."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.pci_farms import Part, estate_of, planted, shown, slot_number, wanted

from vsphere_ai.app.training.nodes.facts import Chosen, node_of
from vsphere_ai.training.exports import nccl_topo
from vsphere_ai.training.exports.finding import line_of
from vsphere_ai.training.exports.nccl_topo import check, differences, places
from vsphere_ai.training.nccl_topo import file_for
from vsphere_ai.training.node_topology import node_topology
from vsphere_ai.training.topology import nic_orders

VM = Chosen("VirtualMachine:vm-1")


def farm_and_node(seed):
    random = Random(seed)
    farm = planted(random)
    node, _ = node_of(VM, estate_of(farm, random))
    return farm, node


@settings(deadline=None)
@given(st.integers(0, 2**32))
def test_the_file_is_the_planted_tree(seed):
    farm, node = farm_and_node(seed)
    made = node_topology(node)
    assert made.gaps == ()
    text = file_for([node], made.text)
    assert shown(text) == wanted(farm)
    assert check(text) == []
    assert differences(text, node) == []
    assert set(places(text)) == {p.guest for p in farm.parts if p.guest}


@settings(deadline=None)
@given(st.integers(0, 2**32))
def test_the_distance_of_gpu_and_rail_is_that_of_the_planted_tree(seed):
    farm, node = farm_and_node(seed)
    ways = {}

    def walk(thing, above):
        if isinstance(thing, Part):
            ways[thing.address] = above
        else:
            for each in thing.below:
                walk(each, (*above, id(thing)))

    for number, things in farm.roots.items():
        for thing in things:
            walk(thing, (number,))
    for order in nic_orders(node):
        mine = ways[order.gpu.site.address]
        for rail, far in order.rails:
            other = ways[rail.site.address]
            common = [a for a, b in zip(mine, other, strict=False) if a == b]
            if mine[0] != other[0]:
                assert far == "SYS"
            elif len(common) == 1:
                assert far == "PHB"
            else:
                assert far == ("PIX" if mine == other else "PXB")
        found = [("PIX", "PXB", "PHB", "SYS").index(far) for _, far in order.rails]
        assert found == sorted(found)


@settings(deadline=None)
@given(st.integers(0, 2**32), st.data())
def test_a_file_with_a_device_elsewhere_is_found(seed, data):
    farm, node = farm_and_node(seed)
    text = node_topology(node).text
    part = data.draw(st.sampled_from([p for p in farm.parts if p.guest]))
    wrong = text.replace(f'busid="{part.guest}"', 'busid="0000:ff:00.0"')
    assert [str(each) for each in differences(wrong, node) if part.guest in each.message]
    other = text.replace('numaid="0"', 'numaid="7"')
    assert bool(differences(other, node)) == (other != text)


def test_slot_numbers_of_guests():
    assert [slot_number(f"0000:{bus:02x}:00.0") for bus in (3, 4, 0x0B, 0x13)] == [160, 1184, 192, 224]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('<?xml version="1.0"?>\n<system version="1"/>\n', 1),
        ('<system version="2">\n</system>\n', 1),
        ('<system version="1">\n  <cpu>\n  </cpu>\n</system>\n', 2),
        ('<system version="1">\n  <cpu numaid="x"/>\n</system>\n', 2),
        ('<system version="1">\n  <cpu numaid="0"/>\n  <cpu numaid="0"/>\n</system>\n', 3),
        ('<system version="1">\n  <cpu numaid="0" affinity="all"/>\n</system>\n', 2),
        ('<system version="1">\n  <cpu numaid="0">\n    <pci busid="3:0.0"/>\n  </cpu>\n</system>\n', 3),
        ('<system version="1">\n  <cpu numaid="0">\n    <gpu dev="0"/>\n  </cpu>\n</system>\n', 3),
        ('<system version="1">\n  <cpu numaid="0">\n  </system>\n', 3),
        ('<system version="1">\n  <cpu numaid="0">\n', 2),
        ('<system version="1">\n\t<cpu numaid="0"/>\n</system>\n', 2),
        ("<system version='1'>\n</system>\n", 1),
        ("", 1),
        ('<system version="1"/>\n<system version="1"/>\n', 2),
        (f'<system version="1" name="{"x" * 255}">\n</system>\n', 1),
    ],
)
def test_what_nccl_does_not_read_is_found(text, line):
    assert [line_of(each) for each in nccl_topo.check(text)][:1] == [line]


def test_a_bridge_without_a_class_is_found():
    text = '<system version="1">\n<cpu numaid="0">\n<pci busid="ffff:ff:01.0">\n<pci busid="0000:03:00.0"/>\n</pci>\n'
    (found,) = nccl_topo.check(f"{text}</cpu>\n</system>\n")
    assert line_of(found) == 3


PCI = '<pci busid="0000:{:02x}:00.0" class="0x020000"/>'


def topology(inner="", head='version="1"', cpu='numaid="0"'):
    return f"<system {head}><cpu {cpu}>{inner}</cpu></system>"


# what NVIDIA/nccl src/graph/xml.cc does with a file: reads it (""), reads it and loses or warns, or refuses it
READ = [
    (topology(), ""),
    (topology('<pci busid="0000:0b:00.0" class="0x020000" />'), ""),
    (topology('<pci  busid="0000:0b:00.0"   class="0x020000"></pci>'), ""),
    (topology().replace("><", ">\r\n <!-- a comment -->\n<"), ""),
    (topology(head='version="1.0"'), ""),
    (topology(head='version="2"'), "fail"),
    (topology(head=""), "fail"),
    (topology(head="version='1'"), "warn"),
    (topology().replace("<cpu", "\t<cpu"), "fail"),
    ("<?xml version='1.0'?>" + topology(), "fail"),
    ("<!DOCTYPE system>" + topology(), "fail"),
    ("\ufeff" + topology(), "fail"),
    (topology("text"), "fail"),
    (topology(cpu='numaid="0"\n affinity="f"'), "fail"),
    (topology(cpu='numaid ="0"'), "fail"),
    (topology(cpu="numaid"), "fail"),
    (topology().replace("</cpu>", "</cpu >"), "fail"),
    (topology().replace("</cpu>", ""), "fail"),
    (topology() + topology(), "warn"),
    ("", "fail"),
    (topology(cpu='numaid="0" arch="' + "x" * 253 + '"'), ""),
    (topology(cpu='numaid="0" arch="' + "x" * 254 + '"'), "fail"),
    (topology(cpu='numaid="0" numaid="1"'), "warn"),
    (topology(cpu='numaid="0"' + " " * 16 + 'affinity="f"'), "fail"),
    (topology('<other><pci busid="x"/></other>'), "warn"),
    (topology("".join(PCI.format(n) for n in range(253))), ""),
    (topology("".join(PCI.format(n) for n in range(254))), "fail"),
    (topology("<other/>" * 300), "warn"),
]


@pytest.mark.parametrize(("text", "verdict"), READ, ids=[str(n) for n in range(len(READ))])
def test_a_file_is_judged_as_the_parser_of_nccl_reads_it(text, verdict):
    found = {each.verdict for each in check(text)}
    assert found == ({verdict} if verdict else set()), check(text)
