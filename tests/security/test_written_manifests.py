"""Names of others in manifests, network files, reports, metrics, completions and files of SSH, read back by parsers."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import replace
from io import StringIO
from types import SimpleNamespace
from xml.parsers import expat

import pytest
import yaml
from support.hostile_names import HOSTILE
from support.pods import OPERATOR, SPIDERPOOL, card, ethernet, exported, machine, rules, seen
from support.programs import needs_program
from training.nodes import nodes

from vsphere_ai.app.training.launch.mesh import make_mesh
from vsphere_ai.app.training.nodes.nccl_topology import save_topologies
from vsphere_ai.cli.setup.completion import _beginning
from vsphere_ai.connect.secure_shell.guest_ssh import GuestSettings
from vsphere_ai.connect.secure_shell.trusted import keep_host_key
from vsphere_ai.errors import Refused
from vsphere_ai.guests.observed import ObservedNetwork
from vsphere_ai.model.finding import Finding, Subject
from vsphere_ai.model.names import written_names
from vsphere_ai.model.state import Target
from vsphere_ai.model.text import safe
from vsphere_ai.report.network.guest_text import networks_text
from vsphere_ai.report.pages.formats.ctrf import ctrf
from vsphere_ai.report.pages.formats.junit import junit
from vsphere_ai.report.pages.formats.markdown import markdown
from vsphere_ai.report.pages.formats.sarif import sarif
from vsphere_ai.report.pages.values import JunitCase, Report, ReportSection, SarifResult
from vsphere_ai.report.training.assessment_text import assessment_markdown

KEYGEN = ("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f")


# -- manifests


def farm(name, part):
    """Three VMs; one of them, its guest, an interface of it or the port group has a name."""
    texts = {"vm": {"name": name}, "hostname": {"hostname": name}, "reported": {"guest__hostName": name}}.get(part, {})
    group = name if part == "group" else "rail1"
    vms = []
    for number, more in ((1, texts), (2, {}), (3, {})):
        interface = name if part == "interface" and number == 1 else "rail1"
        file = ethernet(number, 1, interface, f"172.16.2.{32 * (number - 1) + 1}/23", mtu=9000)
        vms.append(machine(number, [card(number, 1, f"pg-{group}")], file, **more))
    return seen(*vms, groups=(group,))


@pytest.mark.parametrize("part", ["vm", "hostname", "reported", "interface", "group"])
@pytest.mark.parametrize("how", [SPIDERPOOL, OPERATOR], ids=["spiderpool", "network-operator"])
def test_a_manifest_has_its_objects_and_no_other_line(how, part):
    kinds = [each.data["kind"] for each in exported(farm("harmless", part), how).objects]
    written = 0
    for name in HOSTILE:
        found = exported(farm(name, part), how)
        if rules(found):
            assert found.text == ""
            continue
        written += 1
        documents = [each for each in yaml.safe_load_all(found.text) if each]
        assert documents == [dict(each.data) for each in found.objects], name
        assert [each["kind"] for each in documents] == kinds or part == "interface", name
        assert safe(found.text.replace("\n", "")) == found.text.replace("\n", "")
    assert written or part == "interface"


def test_network_files_stand_below_comments_that_names_do_not_end():
    found = [ObservedNetwork(Target("vm", n, "VirtualMachine:vm-1"), "version: 2\n", lines=(n, n)) for n in HOSTILE]
    assert list(yaml.safe_load_all(networks_text(found))) == [{"version": 2}] * len(HOSTILE)


# -- reports


def report(name):
    section = ReportSection(name, (name, "b"), ((name, "c"), ("d", name)), note=name, code=f"{name}\n```\n{name}")
    cases = (
        JunitCase(name, name, "fail", name),
        JunitCase(name, "x", "warn", name),
        JunitCase("y", name, "unknown", name),
    )
    result = SarifResult(name, "fail", name, (name,), name, 1)
    return Report(name, name, "fail", ((name, name),), (section,), cases, (result,))


def marked(text):
    """Return the tokens of a text by CommonMark with tables, and the texts of its cells and paragraphs."""
    from markdown_it import MarkdownIt

    tokens = MarkdownIt("commonmark", {"html": True}).enable("table").parse(text)
    lines = [token.children or [] for token in tokens]
    texts = ["".join(part.content for part in line) for line in lines]
    return [token.type for token in tokens], {part.type for line in lines for part in line}, texts


HARMLESS = {"text", "softbreak", "strong_open", "strong_close", "code_inline", "text_special"}


@pytest.mark.parametrize("name", HOSTILE, ids=ascii)
def test_markdown_of_a_report_is_that_of_a_harmless_name(name):
    types, inner, texts = marked(markdown(report(name)))
    assert types == marked(markdown(report("harmless")))[0]
    assert inner <= HARMLESS
    assert texts.count(safe(name).strip()) >= 5, "a cell says another name than that of the object"


@pytest.mark.parametrize("name", HOSTILE, ids=ascii)
def test_markdown_of_an_assessment_is_that_of_a_harmless_name(name):
    def text(of):
        found = Finding(Subject("vm", of), "security.b", "fail", of, of, ((of, of),), "a source")
        return assessment_markdown([found], (), of)

    types, inner, texts = marked(text(name))
    assert types == marked(text("harmless"))[0]
    assert inner <= HARMLESS
    assert safe(name).strip() in texts


def test_a_bare_address_is_no_link_where_markdown_links_those():
    for text in ("https://evil.example", "see WWW.evil.example", "mailto:a", "ftp://x"):
        shown = written_names.markdown_text(text)
        assert not any(each in shown.lower() for each in ("://", "www.", "mailto:")) or "\\" in shown
        assert "\\:" in shown or "\\." in shown


@pytest.mark.parametrize("name", HOSTILE, ids=ascii)
def test_reports_for_programs_are_read_by_their_parsers(name):
    found = []
    parser = expat.ParserCreate()
    parser.StartElementHandler = lambda element, attributes: found.append((element, attributes))
    parser.Parse(junit(report(name)), True)
    assert [element for element, _ in found].count("testcase") == 3
    assert found[0] == ("testsuites", {"name": safe(name)})
    assert json.loads(sarif(report(name)))["runs"][0]["results"][0]["message"]["text"] == safe(name)
    assert {test["message"] for test in json.loads(ctrf(report(name)))["results"]["tests"]} == {safe(name)}


def test_metrics_have_each_label_as_it_is():
    from prometheus_client import CollectorRegistry, generate_latest
    from prometheus_client.parser import text_fd_to_metric_families

    from vsphere_ai.web.metrics import _gauge

    made = _gauge("hosts", "Hosts.", [((name,), 1.0) for name in HOSTILE], ("cluster",))
    registry = CollectorRegistry()

    class Hosts:
        def collect(self):
            return iter([made])

    registry.register(Hosts())
    (family,) = text_fd_to_metric_families(StringIO(generate_latest(registry).decode(), newline="\n"))
    assert [sample.labels["cluster"] for sample in family.samples] == list(HOSTILE)


# -- shells and SSH


@pytest.mark.skipif(not shutil.which("bash"), reason="bash is not here")
def test_names_that_are_offered_are_one_word_in_bash(tmp_path):
    names = [item.value for item in _beginning([*HOSTILE, "esx01.lab.local", "vm_1", "größe"], "")]
    assert {"esx01.lab.local", "vm_1", "größe"} <= set(names)
    assert not [name for name in names if name.startswith("-") or safe(name) != name]
    offered = 'for value in "$@"; do COMPREPLY+=($value); done; printf \'%s\\0\' "${COMPREPLY[@]}"'
    script = f"{offered}; eval \"printf '%s\\0' ${{COMPREPLY[*]}}\""
    done = subprocess.run(
        ["bash", "-c", script, "bash", *names], cwd=tmp_path, capture_output=True, check=True, timeout=20
    )
    assert done.stdout.decode().split("\0")[:-1] == [*names, *names]
    assert list(tmp_path.iterdir()) == []


def key_of(folder):
    subprocess.run([*KEYGEN, folder / "key"], check=True, timeout=20)
    return (folder / "key.pub").read_text().split()[1]


@needs_program("ssh", "ssh-keygen")
def test_files_of_a_mesh_mean_the_nodes_and_nothing_else(tmp_path):
    own, known = nodes(2), tmp_path / "known_hosts"
    known.write_text("".join(f"{n.vm} ssh-ed25519 {key_of(tmp_path)}\n" for n in own[:1]) * 1, "utf-8")
    known.write_text(known.read_text() + known.read_text().replace(own[0].vm, own[1].vm), "utf-8")
    settings = GuestSettings("ops", known)
    texts = {f.name: f.text for f in make_mesh("run1", own, settings).files}
    assert [line.split()[0] for line in texts["mesh_known_hosts"].splitlines()] == [n.address for n in own]
    (tmp_path / "config").write_text(texts["mesh_config"], "utf-8")
    refused = []
    for name in HOSTILE:
        hostile = (own[0], replace(own[1], address=name))
        try:
            made = make_mesh("run1", hostile, settings, heads=hostile)
        except Refused as error:
            refused.append(error.rule)
            continue
        config = next(f.text for f in made.files if f.name == "mesh_config")
        assert config.splitlines()[1:] == texts["mesh_config"].splitlines()[1:]
        assert config.splitlines()[0].split() == ["Host", own[0].address, name]
        assert f'from="{own[0].address},{name}",' in made.line
    assert set(refused) == {written_names.RULE}
    shown = subprocess.run(
        ["ssh", "-G", "-F", tmp_path / "config", own[1].address], capture_output=True, text=True, check=True, timeout=20
    )
    assert "user ops" in shown.stdout


@needs_program("ssh-keygen")
def test_a_key_is_trusted_for_one_host_by_its_name(tmp_path):
    import paramiko

    file = tmp_path / "known_hosts"
    key = paramiko.Ed25519Key.from_private_key_file(str(made(tmp_path)))
    for name in ("esx01.lab.local", "10.0.0.1", "fd00::1", "[esx01]:2222", "[fd00::1]:22"):
        keep_host_key(file, name, key)
    assert file.read_text().split(" ", 1)[0] == "esx01.lab.local"
    before = file.read_text()
    for name in HOSTILE:
        if name in ("DEFAULT", "ALL", "localhost", "null", "0x10", "1.2.3"):
            continue
        with pytest.raises(Refused, match="file of known hosts"):
            keep_host_key(file, name, key)
    assert file.read_text() == before


def made(folder):
    subprocess.run([*KEYGEN, folder / "host"], check=True, timeout=20)
    return folder / "host"


def test_two_vms_whose_files_would_have_one_name_are_refused(tmp_path):
    one, other = nodes(2)
    pairs = [("a.b", "ab"), ("../x", "x"), ("A", "a"), ("\u202e", "..")]
    for first, second in pairs:
        both = (replace(one, vm=first), replace(other, vm=second))
        with pytest.raises(Refused, match="the same name"):
            save_topologies(SimpleNamespace(files=[(both, "text")]), tmp_path / "out")
        assert not (tmp_path / "out").exists()
    (path,) = save_topologies(SimpleNamespace(files=[((replace(one, vm="../../etc/x"),), "text")]), tmp_path / "out")
    assert path == tmp_path / "out" / "etcx.xml"
