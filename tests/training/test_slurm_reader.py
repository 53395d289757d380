"""Files of Slurm as its own programs take them: each form was given to scontrol, slurmd -G and slurmctld of 22.05."""

from __future__ import annotations

import pytest

from vsphere_ai.training.exports.finding import faults
from vsphere_ai.training.exports.slurm_check import check
from vsphere_ai.training.exports.slurm_hostlist import expanded

BASE = "ClusterName=c\nSlurmctldHost=h\nGresTypes=gpu\nNodeName=n[1-4] CPUs=1\nPartitionName=p Nodes=ALL\n"
TREE = "### slurm.conf\nNodeName=n[1-8] CPUs=1\n### topology.conf\n"
LEAVES = f"{TREE}SwitchName=a Nodes=n[1-4]\nSwitchName=b Nodes=n[5-8]\n"
GRES = "### gres.conf\n"
FILES = "File=/dev/nvidia[0-1]"

READ = {
    "keys in any case": "nodename=x CPUS=2\n",
    "a value that adds to one": "ReturnToService+=2\n",
    "a comment right behind a value": "ReturnToService=2#c\n",
    "a backslash with blanks behind it": "NodeName=x \\  \n CPUs=2\n",
    "a quote that is not closed, in one word": 'NodeName=x Feature="a\n',
    "a number in hexadecimal digits": "NodeName=x CPUs=0x10\n",
    "a number without an end": "NodeName=x RealMemory=INFINITE\n",
    "a set of nodes with nothing in it": "NodeSet=s\n",
    "nodes that are down without a state": "DownNodes=n1\n",
    "an address per node": "NodeName=x[1-2] NodeAddr=10.0.0.[1-2] Port=[7001-7002]\n",
    "one address of all": "NodeName=x[1-2] NodeAddr=10.0.0.1\n",
    "a state with a flag": "NodeName=x State=DOWN+DRAIN\n",
    "a partition without nodes": "PartitionName=q\n",
    "a time of days": "PartitionName=q Nodes=n1 MaxTime=2-00:00:00 DefaultTime=60 Default=yes State=up\n",
    "empty parts of a list": "PartitionName=q Nodes=n1,,n2,\n",
    "GPUs of a node": f"{GRES}NodeName=n1 Name=gpu {FILES} Links=-1,0\n",
    "a number with a unit": f"{GRES}Name=gpu Count=2K\n",
    "a way to find GPUs below them": f"{GRES}Name=gpu Count=2\nAutoDetect=nvml\n",
    "a switch above switches": f"{LEAVES}SwitchName=t Switches=a,b\n",
    "a speed of a link": f"{TREE}SwitchName=a Nodes=n[1-8] LinkSpeed=100\n",
}
WARNED = {
    "a number of 0, which is taken for 1": "NodeName=x CPUs=0\n",
    "a set of nodes that there are not": "NodeSet=s Nodes=zz\n",
    "GPUs without the kind in slurm.conf": "### slurm.conf\nNodeName=x Gres=gpu:2\n",
    "links without the GPU itself": f"{GRES}Name=gpu {FILES} Links=0,0\n",
    "a way to find GPUs of another release": f"{GRES}AutoDetect=magic\n",
    "a kind that slurm.conf does not have": f"{GRES}Name=nic Count=1\n",
    "a node of a switch that there is not": f"{TREE}SwitchName=a Nodes=n[1-9]\n",
    "a node below two leaves": f"{LEAVES.replace('[5-8]', '[4-8]')}SwitchName=t Switches=a,b\n",
    "a switch with nothing below it": f"{TREE}SwitchName=a\n",
}
REFUSED = {
    "two keys in a line where one stands alone": "ReturnToService=1 SlurmctldPort=6817\n",
    "Include with an equals sign": "Include=/etc/slurm/nodes.conf\n",
    "a number that is a word": "NodeName=x CPUs=many\n",
    "a unit behind memory": "NodeName=x RealMemory=16G\n",
    "a node twice": "NodeName=n1 CPUs=2\n",
    "fewer addresses than nodes": "NodeName=x[1-3] NodeAddr=10.0.0.[1-2]\n",
    "a state that no node has": "NodeName=x State=UP\n",
    "a partition twice": "PartitionName=p Nodes=n1\n",
    "nodes of a partition that there are not": "PartitionName=q Nodes=n[1-5]\n",
    "a state that no partition has": "PartitionName=q Nodes=n1 State=open\n",
    "a default that is neither": "PartitionName=q Nodes=n1 Default=maybe\n",
    "a time that is none": "PartitionName=q Nodes=n1 MaxTime=1h\n",
    "a list that is all commas": "PartitionName=q Nodes=,\n",
    "a count beside another number of files": f"{GRES}Name=gpu Count=3 {FILES}\n",
    "files in two ways": f"{GRES}Name=gpu File=/dev/nvidia0 MultipleFiles=/dev/nvidia[1-2]\n",
    "devices without a name": f"{GRES}{FILES}\n",
    "devices of a node without a name": f"{GRES}NodeName=n1 {FILES}\n",
    "a switch twice": f"{TREE}SwitchName=a Nodes=n[1-4]\nSwitchName=a Nodes=n[5-8]\n",
    "a switch that there is not": f"{TREE}SwitchName=t Switches=a\n",
    "a speed in words": f"{TREE}SwitchName=a Nodes=n[1-8] LinkSpeed=fast\n",
    "nodes below no switch": f"{TREE}Nodes=n1\n",
}


def given(text: str) -> str:
    return text if text.startswith("### slurm") else BASE + text


@pytest.mark.parametrize("form", READ)
def test_what_slurm_reads_is_no_fault(form):
    assert faults(check(given(READ[form]))) == []


def test_gpus_that_a_later_line_finds_are_bound():
    assert check(f"{GRES}Name=gpu Count=2\nAutoDetect=nvml\n") == []
    assert [finding.verdict for finding in check(f"{GRES}Name=gpu Count=2\n")] == ["warn"]


@pytest.mark.parametrize("form", WARNED)
def test_what_slurm_reads_and_passes_over_is_a_warning(form):
    assert {finding.verdict for finding in check(given(WARNED[form]))} - {"info"} == {"warn"}


@pytest.mark.parametrize("form", REFUSED)
def test_what_ends_slurm_is_a_fault(form):
    assert faults(check(given(REFUSED[form]))) != []


def test_a_file_that_starts_no_controller_is_warned_of():
    assert [finding.verdict for finding in check("ClusterName=c\nSlurmctldHost=h\n")] == ["warn", "warn"]
    assert check("ClusterName=c\nSlurmctldHost=h\nInclude nodes.conf\n")[0].verdict == "info"


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("a[001-3]", ["a001", "a002", "a003"]),
        ("a[9-010]", ["a9", "a10"]),
        ("a[1-2]b[3-4]", ["a1b3", "a1b4", "a2b3", "a2b4"]),
        ("a[1-2][3-4]", ["a13", "a14", "a23", "a24"]),
        ("a,,b,", ["a", "b"]),
        ("[1-2]", ["1", "2"]),
    ],
)
def test_a_host_list_has_the_names_that_scontrol_shows(text, names):
    assert expanded(text) == names


@pytest.mark.parametrize(
    "text", ["a[]", "a[1,,3]", "a[3-1]", "a[x]", "a[1-2-3]", "a[-1]", "a[[1-2]]", "a[0-65536]", ","]
)
def test_a_list_that_scontrol_refuses_names_nothing(text):
    with pytest.raises(ValueError, match=r"no (range|name|list)|names no node"):
        expanded(text)
