"""Topology files as NCCL's own parser takes them (NVIDIA/nccl src/graph/xml.cc, compiled and run on each form)."""

from __future__ import annotations

import pytest

from vsphere_ai.training.exports.finding import faults
from vsphere_ai.training.exports.nccl_topo import check, places

PLAIN = """<system version="1">
<cpu numaid="0" affinity="ffff" arch="x86_64">
<pci busid="0000:03:00.0" class="0x030200"><gpu dev="0"/></pci>
</cpu>
</system>
"""


def nic(more: str = "", domain: int = 0) -> str:
    return f'<pci busid="{domain:04x}:04:00.0" class="0x020000"{more}/>'


def within(text: str) -> str:
    """The file with something more below its CPU."""
    return PLAIN.replace("</cpu>", f"{text}</cpu>")


READ = {
    "as it is": PLAIN,
    "lines end with CR LF": PLAIN.replace("\n", "\r\n"),
    "a comment": f"<!-- a host -->\n{PLAIN}",
    "several blanks between attributes": PLAIN.replace(" affinity", "   affinity"),
    "a blank before the end of a tag": PLAIN.replace('"x86_64">', '"x86_64" >'),
    "a blank before the end of a single tag": within(nic(" ")),
    "apostrophes, from 2.27.3 on": PLAIN.replace('"1"', "'1'"),
    "an entity, which stays as it is": within(nic(' name="a&amp;b"')),
    "a value with a bracket": within(nic(' name="a>b"')),
    "a value of 253 characters": within(nic(f' name="{"a" * 253}"')),
    "an attribute twice": within(nic(' a="1" a="2"')),
    "an attribute without a value": within(nic(" flag")),
    "an element that is closed by itself": PLAIN.replace(
        "</system>", '<cpu numaid="1" affinity="0" arch="x86_64"></cpu></system>'
    ),
    "version 1.0": PLAIN.replace('version="1"', 'version="1.0"'),
    "an element that NCCL does not know": within('<telescope a="1"><lens/></telescope>'),
    "tags below an unknown element that do not match: they are only counted": within("<a><b></a></b>"),
    "elements of NCCL below an unknown one, which do not count": within(f"<a>{nic() * 300}</a>"),
    "elements where NCCL has none of that name, which do not count": within('<net name="a"/>' * 300),
    "a comment that ends in its first word": within("<!--note--><!---->"),
    "a comment with an equals sign behind its first word": within("<!-- a=b -->"),
    "words behind the slash of a single tag": within('<pci busid="0000:04:00.0" class="0x020000"/nic>'),
    "version 0x1": PLAIN.replace('version="1"', 'version="0x1"'),
    "version 1 with words": PLAIN.replace('version="1"', 'version="1 of 2"'),
    "a mask in capitals, and shorter parts": PLAIN.replace('"ffff"', '"0x00FF,FFFF0000,ff"'),
    "a switch whose address no device has": PLAIN.replace(
        "<pci", '<pci busid="FFFFFFFF:ff:01.0" class="0x060400"><pci', 1
    ).replace("</pci>", "</pci></pci>"),
    "a class by its first digits": PLAIN.replace("0x030200", "0x03"),
    "two hosts of one NVLink domain, each with its NUMA node 0": PLAIN.replace(
        "</system>", '<cpu host_hash="0x2" numaid="0" arch="arm64"/></system>'
    ),
    "255 elements": within("".join(nic(domain=number) for number in range(251))),
}
REFUSED = {
    "a tab between tags": PLAIN.replace("\n<cpu", "\n\t<cpu"),
    "text between tags": PLAIN.replace("\n<cpu", "\nx<cpu"),
    "a byte order mark": f"\ufeff{PLAIN}",
    "a declaration of XML": f'<?xml version="1.0"?>\n{PLAIN}',
    "a type of document": f"<!DOCTYPE system>\n{PLAIN}",
    "a line break between attributes": PLAIN.replace(" affinity", "\naffinity"),
    "a tab between attributes": PLAIN.replace(" affinity", "\taffinity"),
    "blanks around the equals sign": PLAIN.replace('version="1"', 'version = "1"'),
    "a blank in a closing tag": PLAIN.replace("</cpu>", "</cpu >"),
    "a value of 254 characters": within(nic(f' name="{"a" * 254}"')),
    "a closing tag of another name": PLAIN.replace("</cpu>", "</cpx>"),
    "the end within an element": PLAIN.replace("</system>\n", ""),
    "a comment whose first word has an equals sign": within("<!--=====-->"),
    "a comment that is not closed": within("<!-- a host"),
    "a comment of a hyphen less": within("<!-->"),
    "a closing tag that closes itself": PLAIN.replace("</cpu>", "</cpu/>"),
    "a blank behind the slash": within('<pci busid="0000:04:00.0" class="0x020000"/ >'),
    "no blank between attributes": PLAIN.replace(" arch", "arch"),
    "a value without quotes": PLAIN.replace('"0"', "0", 1),
    "a value of 127 characters with 254 bytes": within(nic(f' name="{"é" * 127}"')),
    "a word of 254 characters in a comment": within(f"<!--{'-' * 254} -->"),
    "a closing tag alone": f"</cpu>{PLAIN}",
    "version 10": PLAIN.replace('version="1"', 'version="10"'),
    "a mask of one part of 64 CPUs, of which 32 are read": PLAIN.replace('"ffff"', '"ffffffffffffffff"'),
    "a device in capitals, which NCCL does not find in the file": PLAIN.replace("0000:03", "000A:03"),
    "version 2": PLAIN.replace('version="1"', 'version="2"'),
    "no version": PLAIN.replace(' version="1"', ""),
    "256 elements": within("".join(nic(domain=number) for number in range(252))),
    "nothing: it is read, and not used": "",
}


def test_a_file_that_nccl_wrote_itself_has_its_devices():
    """NCCL_TOPO_DUMP_FILE has the functions of a device below its address: it is no switch for that."""
    assert set(places(PLAIN)) == {"0000:03:00.0"}


def test_what_is_behind_the_first_system_is_not_used():
    assert [finding.verdict for finding in check(PLAIN + '<system version="1"/><graphs version="1"/>')] == ["warn"] * 2


def test_a_value_behind_a_blank_is_lost():
    faulty = check(within('<nic><net name ="mlx5_0"  dev  ="0"/></nic>'))
    assert [finding.message.partition(":")[0] for finding in faults(faulty)] == [
        "a blank stands before '=' behind dev of <net>", "a blank stands before '=' behind name of <net>",
    ]  # fmt: skip


@pytest.mark.parametrize("form", READ)
def test_what_nccl_reads_is_no_fault(form):
    assert faults(check(READ[form])) == []


@pytest.mark.parametrize("form", REFUSED)
def test_what_nccl_refuses_or_does_not_use_is_a_fault(form):
    assert faults(check(REFUSED[form])) != []
