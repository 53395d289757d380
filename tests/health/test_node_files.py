"""Files for tools that watch nodes: what is written is read back without a fault, and every fault is found."""

import re

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from vsphere_ai.health import nhc, prometheus
from vsphere_ai.health.nhc_masks import mask_of, matches, wrong_mask
from vsphere_ai.model.nodes import Node, NodeGpu, Rail


def node(number, *, gpus=2, profile="", rdma="mlx5_0", address=None):
    rails = (Rail("ens224", rdma_device=rdma),) if rdma else ()
    cards = tuple(NodeGpu(n, profile=profile) for n in range(gpus))
    return Node(f"train-{number:02}", address or f"10.0.0.{number}", "ens192", gpus=cards, rails=rails)


NODES = tuple(node(n) for n in range(1, 5))
SIZES = {n.vm: nhc.Size(1, 16, 64) for n in NODES}
nodes = st.lists(
    st.builds(node, st.integers(1, 99), gpus=st.integers(0, 8), rdma=st.sampled_from(["", "mlx5_0", "rocep3s0f1"])),
    min_size=1, max_size=8, unique_by=lambda n: n.vm,
)  # fmt: skip


# -- node health check


@given(nodes)
def test_what_is_written_is_read_back_and_covers_every_node(drawn):
    lines, faults = nhc.read(nhc.written(drawn, {n.vm: nhc.Size(1, at, 8) for at, n in enumerate(drawn)}, "train"))
    assert faults == ()
    for each in drawn:
        own = [line.check for line in lines if matches(line.mask, each.vm)]
        assert own.count("check_hw_eth") == 1 + len(each.rails)
        assert own.count("check_cmd_output") == bool(each.gpus) + len(each.rails)


def test_sizes_are_checked_where_they_are_known():
    lines, _ = nhc.read(nhc.written(NODES, SIZES, "train"))
    assert {line.arguments for line in lines if line.check == "check_hw_cpuinfo"} == {("1", "16", "16")}
    assert {line.arguments for line in lines if line.check == "check_hw_physmem"} == {("64gb", "64gb", "5%")}


def test_the_number_of_gpus_is_that_of_the_last_one():
    text = nhc.written([node(1, gpus=8)], {}, "train")
    (line,) = [one for one in nhc.read(text)[0] if "nvidia-smi" in one.arguments]
    assert re.search(line.arguments[line.arguments.index("-m") + 1].strip("/"), "GPU 7: NVIDIA A100")
    assert "rdma link" in text


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("* || check_hw_eth", "needs 1"),
        ("/n0[1-/ || check_fs_free / 5%", "regular expression"),
        ("/n0 || check_fs_free / 5%", "not closed"),
        ("{n[1-4] || check_fs_free / 5%", "not closed"),
        ("* || check_cmd_output -m 'x uname", "quote"),
        ("* || check_cmd_output -t 5 -m '/x/'", "needs 1 argument"),
        ("* || check_cmd_output -q uname", "option -q not recognized"),
        ("* || check_hw_physmem 64gb", "needs 2"),
        ("{n[1,3]} || check_fs_free / 5%", "ends the node range at 'n[1'"),
        ("{login,n1} || check_fs_free / 5%", "ends the node range at 'login'"),
        ("* || check_fs_free / 5%\r", "CR LF"),
    ],
)
def test_every_fault_is_found_at_its_line(line, message):
    lines, (fault,) = nhc.read(f"# a comment\n\n{line}\n* || check_fs_free / 5%\n")
    assert (fault.line, len(lines)) == (3, 1)
    assert message in fault.message
    assert 1 <= fault.column <= len(line) + 1


@pytest.mark.parametrize(
    ("mask", "host", "meant"),
    [
        ("*", "n1", True),
        ("n*", "m1", False),
        ("/^n0[1-3]$/", "n02", True),
        ("/^n0[1-3]$/", "n04", False),
        ("/^n[[:digit:]]+$/", "n04", True),
        ("{n[01-03],n7,m1}", "n02", True),
        ("{n[01-03],n7,m1}", "n2", False),
        ("{n[01-03],n7,m1}", "n7", True),
        ("{n[03-01]x,m1}", "n02x", True),
        ("{n[8-10]}", "n9", False),
        ("{n[8-10]}", "n09", True),
        ("{n[01-03,7],m1}", "m1", False),
        ("{login,m1}", "m1", False),
        ("{m1,login}", "m1", True),
        ("!n*", "m1", True),
        ("!{n[1-4]}", "m1", True),
        ("{n[1-4]", "n1", False),
    ],
)
def test_host_masks(mask, host, meant):
    assert matches(mask, host) is meant


@pytest.mark.parametrize("line", ["* | check_hw_eth eth0", "hello", "* ||", " || check_fs_free / 5%", "TIMEOUT=60"])
def test_a_line_that_never_runs_is_noted(line):
    lines, (note,) = nhc.read(f"# a comment\n\n{line}\n* || check_fs_free / 5%\n")
    assert (note.line, note.is_note, len(lines)) == (3, True, 1)
    assert "never runs" in note.message


@pytest.mark.parametrize(
    "line",
    [
        "* || check_hw_ib", "* || check_hw_cpuinfo", "!{n[01-10]} || check_fs_free /", "* || check_cmd_status -t 5",
        "* || check_cmd_output -t 5 -m '/^x/' -e 'uname -a'", "/^n[[:digit:]]+$/ || check_ps_loadavg",
        "* || check_hw_eth $NAME", "* || check_cmd_output -m '*a*' -- uname", "<%h> || check_fs_mount",
    ],
)  # fmt: skip
def test_what_nhc_carries_out_is_no_fault(line):
    lines, faults = nhc.read(f"{line}\n")
    assert (len(lines), faults) == (1, ())


def test_lines_are_those_of_the_shell():
    """read without -r joins lines, takes backslashes out, and does not give a last line that has no end."""
    lines, faults = nhc.read("* || check_file_test -r \\\n /a\\.b\n* || check_hw_eth eth0")
    assert [(line.number, line.check, line.arguments) for line in lines] == [(1, "check_file_test", ("-r", "/a.b"))]
    assert [(fault.line, fault.is_note) for fault in faults] == [(3, False)]
    assert "no line end" in faults[0].message
    assert [fault.line for fault in nhc.read("* || check_hw_eth eth0 \\\n")[1]] == [1]
    assert nhc.read("* || check_hw_ib\n# the end")[1] == ()


NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,8}", fullmatch=True)


@given(st.lists(NAMES, min_size=1, max_size=4, unique=True), NAMES)
def test_the_mask_of_hosts_means_them_and_no_other(names, other):
    mask = mask_of(names)
    assert wrong_mask(mask) == ""
    assert all(matches(mask, name) for name in names)
    assert matches(mask, other) is (other in names)


@given(st.text(max_size=300))
def test_any_text_is_read(text):
    lines, faults = nhc.read(text)
    assert all(matches(line.mask, "n1") in (True, False) for line in lines)
    assert all(f.line >= 1 for f in faults)


def test_a_check_of_a_site_is_not_looked_at_and_stands():
    lines, (note,) = nhc.read("* || check_hw_ether eth0\n* || check_gpu_xgmi 16\n")
    assert (note.is_note, note.line, len(lines)) == (True, 1, 2)
    assert "check_hw_ether" in note.message
    lines, (note,) = nhc.read("check_fs_free / 5%\n")
    assert (note.is_note, lines) == (True, ())


def test_memory_that_is_not_known_is_no_check():
    text = nhc.written(NODES, {n.vm: nhc.Size(1, 16, 0) for n in NODES}, "train")
    assert "check_hw_cpuinfo 1 16 16" in text
    assert "physmem" not in text


def test_assignments_are_lines_of_their_own():
    lines, faults = nhc.read("* || export MARK_OFFLINE=0\n* || NHC_RM=slurm\n")
    assert faults == ()
    assert [line.assignment for line in lines] == ["export MARK_OFFLINE=0", "NHC_RM=slurm"]


# -- Prometheus


@given(nodes, st.booleans())
def test_rules_are_read_back_without_a_fault_and_mean_the_nodes(drawn, vgpu):
    drawn = [node(int(n.vm[-2:]), gpus=len(n.gpus), profile="grid_a100-20c" if vgpu else "") for n in drawn]
    text = yaml.safe_dump(prometheus.rule_file(drawn, "train"))
    made = yaml.safe_load(text)
    assert prometheus.faults(made) == ()
    for rule in made["groups"][0]["rules"]:
        pattern = re.search(r'instance=~"([^"]*)"', rule["expr"])[1].replace("\\\\", "\\")
        meant = [n for n in drawn if any(re.fullmatch(pattern, f"{n.address}:{port}") for port in (9100, 9400))]
        assert meant or not any(n.gpus for n in drawn)
        assert not re.fullmatch(pattern, "10x0x0x1:9100")


def test_a_vgpu_guest_gets_no_alert_that_it_cannot_show():
    names = {r["alert"] for r in prometheus.rule_file([node(1, profile="grid_a100-20c")], "t")["groups"][0]["rules"]}
    whole = {r["alert"] for r in prometheus.rule_file([node(1)], "t")["groups"][0]["rules"]}
    assert "GpuHot" in whole - names
    assert names - whole == {"VgpuNotLicensed"}
    assert prometheus.rule_file([node(1, address="fd00::1")], "t")["groups"][0]["rules"][0]["expr"].count("fd00") == 1


def of(rule):
    return {"groups": [{"name": "a", "rules": [rule]}]}


RULE = ("groups", 0, "rules", 0)
GOOD = {"alert": "A", "expr": "up == 0", "for": "5m"}


@pytest.mark.parametrize(
    ("document", "path", "message"),
    [
        ([], ("groups",), "no file of rules"),
        ({"groups": [{"rules": []}]}, ("groups", 0), "no name"),
        ({"groups": of(GOOD)["groups"] * 2}, ("groups", 1, "name"), "twice"),
        ({"groups": [{"name": "a"}]}, ("groups", 0, "rules"), "no rules"),
        (of({"expr": "1"}), RULE, "either"),
        (of(GOOD | {"alert": "a b"}), (*RULE, "alert"), "no name"),
        (of({"alert": "A"}), (*RULE, "expr"), "no expression"),
        (of(GOOD | {"expr": "sum(up"}), (*RULE, "expr"), "not closed"),
        (of(GOOD | {"expr": "up)"}), (*RULE, "expr"), "closes nothing"),
        (of(GOOD | {"expr": 'up{a="b}'}), (*RULE, "expr"), "quote"),
        (of(GOOD | {"for": "5 m"}), (*RULE, "for"), "no duration"),
        (of(GOOD | {"fro": "5m"}), (*RULE, "fro"), "no key"),
        (of(GOOD | {"labels": {"a-b": 1}}), (*RULE, "labels"), "names"),
        (of(GOOD | {"expr": "DCGM_FI_DEV_XID_ERRORS > 0"}), (*RULE, "expr"), "for ever"),
    ],
)  # fmt: skip
def test_every_fault_of_a_rule_is_found(document, path, message):
    (fault,) = prometheus.faults(document)
    assert fault.path == path
    assert message in fault.message


KEYS = st.sampled_from(["groups", "name", "rules", "alert", "expr"])
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner),
)  # fmt: skip


@given(json_values)
def test_any_document_is_judged(document):
    prometheus.faults(document)


def test_no_node_is_refused():
    with pytest.raises(ValueError, match="no node"):
        prometheus.rule_file([], "t")
    with pytest.raises(ValueError, match="no node"):
        nhc.written([], {}, "t")
