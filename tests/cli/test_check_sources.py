"""Every `render ... --check`: its rules name the program that reads the file, and what they do not know is no fault.

A command with `--check` that is not in the table fails here until it has a row.
"""

from __future__ import annotations

import importlib
import re

import click
import pytest
from click.testing import CliRunner

from vsphere_ai.cli.main import command

SPIDER = "apiVersion: spiderpool.spidernet.io/v2beta1\nkind: {kind}\nmetadata: {{name: a}}\nspec: {spec}\n"
NVIDIA = "apiVersion: mellanox.com/v1alpha1\nkind: {kind}\nmetadata: {{name: a}}\nspec: {spec}\n"
NETWORK = '{master: a, ipam: \'{"type": "nv-ipam"}\'}'
TOPOLOGY = (
    '<system version="1">\n<cpu numaid="0" affinity="ffff" arch="x86_64">\n'
    '<pci busid="0000:03:00.0" class="0x030200">\n<gpu dev="0" sm="80"/>\n</pci>\n</cpu>\n<telescope/>\n</system>\n'
)
EXPORTS = "vsphere_ai.training.exports"
KINDS = "vsphere_ai.kubernetes.kinds"
FORMATS = {
    "accelerate": (f"{EXPORTS}.accelerate_config", "compute_environment: AMAZON_SAGEMAKER\nec2_instance_type: a\n"),
    "ansible": (f"{EXPORTS}.ansible_check", "plugin: amazon.aws.aws_ec2\nregions: [a]\n"),
    "deepspeed": (f"{EXPORTS}.hostfiles", "n1 slots=8 newer=3\n"),
    "hostfile": (f"{EXPORTS}.hostfiles", "n1 slots=8\nrank 0=n1 slot=0\n"),
    "nccl-env": (f"{EXPORTS}.nccl_conf", "NCCL_DEBUG=WARN\nOUR_OWN=1\n"),
    "nccl-topo": (f"{EXPORTS}.nccl_topo", TOPOLOGY),
    "network-operator": (
        f"{KINDS}.network_operator",
        f"{NVIDIA.format(kind='MacvlanNetwork', spec=NETWORK)}---\n"
        f"{NVIDIA.format(kind='FabricTelescope', spec='{a: b}')}",
    ),
    "nhc": ("vsphere_ai.health.nhc", "* || check_fs_free / 5%\n* || check_of_our_own 3\n"),
    "prometheus": (
        "vsphere_ai.health.prometheus",
        "groups:\n- name: a\n  rules:\n  - {alert: B, expr: our_own_metric == 1, for: 1m}\n",
    ),
    "slurm": (f"{EXPORTS}.slurm_check", "ClusterName=c\nSlurmctldHost=h\nNewerKey=1\nNodeName=n[1-2] CPUs=8\n"),
    "spiderpool": (
        f"{KINDS}.spiderpool",
        f"{SPIDER.format(kind='SpiderIPPool', spec='{subnet: 10.0.0.0/24}')}---\napiVersion: v1\nkind: ConfigMap\n"
        "metadata: {name: c}\n",
    ),
    "tf-config": (
        f"{EXPORTS}.frameworks",
        '{"cluster": {"worker": ["n1:2222"]}, "task": {"type": "worker", "index": 0}, "newer": 1}\n',
    ),
}
"""Format -> the module with its rules, and a file with something that they do not know."""
NAMED_NOT_LOOKED_AT = sorted(FORMATS.keys() - {"deepspeed", "nccl-topo", "prometheus", "tf-config"})
"""Formats whose unknown names are counted; the programs of the others pass over such a thing without a word."""


def checks() -> list[str]:
    """Every format that can be checked, from the commands themselves."""
    group = command.get_command(click.Context(command), "render")
    assert isinstance(group, click.Group)
    return sorted(n for n, each in group.commands.items() if any("--check" in p.opts for p in each.params))


def test_each_format_has_a_row():
    assert checks() == sorted(FORMATS)


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_the_rules_name_the_program_and_the_place_in_its_source(name):
    text = importlib.import_module(FORMATS[name][0]).__doc__ or ""
    found = re.search(r"Sources?:(.*)", text, re.DOTALL)
    assert found, f"{FORMATS[name][0]} does not say whose rules these are"
    assert re.search(r"\w/[\w{},./-]+", found[1]), "and not where in its source"


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_what_no_rule_knows_is_no_fault(name, tmp_path):
    path = tmp_path / "file"
    path.write_text(FORMATS[name][1], "utf-8")
    done = CliRunner().invoke(command, ["render", name, "--check", str(path)], standalone_mode=False)
    assert done.exception is None, done.output
    assert (done.return_value or 0) == 0, done.output
    if name in NAMED_NOT_LOOKED_AT:
        assert "not looked at" in " ".join(done.output.split())
