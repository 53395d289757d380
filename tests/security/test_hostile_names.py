"""T-53: names from vCenter are data: nothing in them commands the terminal, and a playbook can name them."""

from __future__ import annotations

import json
import re
import unicodedata

import pytest
import yaml
from support.labs import started

pytestmark = pytest.mark.lab
# what XML 1.0 can carry: no ESC, but C1's CSI and OSC, tabs, line ends and everything above
NAMES = [
    "\x9b2J\x9b31mred\x9bm",
    "\x9d8;;https://evil.example\x9cclick\x9d8;;\x9c",
    "bidi\u202egpj.exe\u2066\u2069",
    "line\nfeed",
    "carriage\rreturn",
    "tab\tand  spaces",
    "rich[/bold][red]markup",
    "<script>alert(1)</script>",
    "{{7*7}}${7*7}%s%(x)s",
    "slash%2fname",
    "back%5cslash",
    "per%25cent",
    "100%",
    "emoji😀👩‍🔬",
    "nfc-\u00e9",
    "nfd-e\u0301",
    "-rf --help",
    "=cmd|' /C calc'!A0",
    "zero\u200bwidth\ufeff",
    "n" * 80,
    "all",
    "a:b,!c&d",
    "x[01:03]",
    "*",
    "~user $HOME `id` ;ls|cat",
    "'single' \"double\" \\back",
    "null",
    "0123",
    "yes: {no: [1]}",
    "# comment",
    "VirtualMachine:vm-1",
]
HOST = "esx01.lab.local"
GROUP = "dvpg <b>\u202erdma\x9b"


def scenario():
    # a range in a lab's name stands for several, so that one name is left to the other tests
    names = [n for n in NAMES if not re.search(r"\[\d", n)]
    vms = [{"name": n, "host": HOST, "folder": "a <i>\u202efolder\x9b", "network": GROUP} for n in names]
    for vm in vms[:3:2]:  # two that run on a GPU, for what is said about GPUs
        vm |= {"vgpu": ["grid_a100-40c"], "power": "on", "memory_reservation_locked": "true"}
        vm["extra_config"] = {"pciPassthru.use64bitMMIO": "TRUE", "pciPassthru.64bitMMIOSizeGB": "128"}
    document = {
        "name": "hostile",
        "timing": {"task_seconds": "0.005", "shutdown_seconds": "0.05"},
        "clusters": [{"name": "cl\u202e<u>\x9buster"}],
        "switches": [{"name": "dvs\x9b", "uplinks": "1", "port_groups": [{"name": GROUP}]}],
        "hosts": [
            {
                "name": HOST,
                "cluster": "cl\u202e<u>\x9buster",
                "nvidia_driver": "470.256.02",
                "graphics_default": "sharedDirect",
                "gpus": [
                    {
                        "pci": f"0000:{bus}:00.0",
                        "board": "a100-40gb",
                        "device_id": "20f1",
                        "graphics_type": "sharedDirect",
                    }
                    for bus in ("3b", "86")
                ],
                "ssh": {"running": "true", "policy": "on"},
                "nics": [
                    {"name": "vmnic4", "pci": "0000:5e:00.0", "model": "ConnectX-6", "switch": "dvs\x9b", "rdma": "r0"}
                ],
                "vmkernel": [{"name": "vmk2", "port_group": GROUP}],
            }
        ],
        "vms": vms,
    }
    return yaml.safe_dump(document), names


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    from vsphere_ai.lab.front import process

    directory = tmp_path_factory.mktemp("hostile")
    text, names = scenario()
    (directory / "farm.yml").write_text(text, encoding="utf-8")
    yield started(directory, directory / "farm.yml"), names
    process.stop(directory)


def harmless(text):
    """Nothing but line ends may move the cursor, and nothing may reorder or hide what is shown."""
    return [f"U+{ord(c):04X}" for c in text if c != "\n" and unicodedata.category(c) in ("Cc", "Cf", "Zl", "Zp", "Cs")]


@pytest.fixture
def playbook(tmp_path, hostile):
    path = tmp_path / "play.yml"
    plays = [{"vms": "all", "hardware": {"version": 19}, "pvrdma": [{"port_group": GROUP, "protocol": "rocev2"}]}]
    path.write_text(yaml.safe_dump(plays), encoding="utf-8")
    return path


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize(
    "command", ["plan", "check", "check all", "show", "verify", "capacity", "doctor", "permissions"]
)
def test_nothing_in_a_name_reaches_the_terminal_as_a_command(hostile, tool, inventory_of, playbook, command, form):
    lab, names = hostile
    inventory = inventory_of(lab)
    word = command.split()[0]
    arguments = {"permissions": ["doctor", "--permissions", playbook], "plan": ["plan", playbook]}.get(command, [word])
    if command in ("check", "verify"):
        arguments.append(playbook)
    if command != "show":
        arguments += ["-o", form]
    code = tool(*arguments, "-i", inventory)
    assert code in (0, 1, 2), tool.err
    assert "Traceback" not in tool.err
    assert harmless(tool.out) == []
    assert harmless(tool.err) == []
    assert len(tool.out) > 200
    if form == "json" and command == "plan":
        named = {i["target"]["name"] for i in json.loads(tool.out)["items"]}
        # XML reads a carriage return as a line end, and vCenter writes %, / and \ in names as %25, %2f and %5c
        assert {n for n in names if not re.search(r"[%\r]", n)} <= named, "JSON keeps names as they are"


def test_what_show_writes_can_be_planned(hostile, tool, inventory_of, tmp_path):
    lab, names = hostile
    inventory = inventory_of(lab)
    assert tool("show", "-i", inventory) == 0, tool.err
    shown = tmp_path / "shown.yml"
    shown.write_text(tool.out, encoding="utf-8")
    assert tool("plan", shown, "-i", inventory, "--detailed-exitcode", "-o", "json") == 0, tool.err
    items = json.loads(tool.out)["items"]
    assert len({i["target"]["ref"] for i in items if i["target"]["kind"] == "vm"}) == len(names)


def test_a_line_of_the_report_cannot_be_forged(hostile, tool, inventory_of, playbook):
    """A line end in a name does not begin a line."""
    lab, _ = hostile
    tool("plan", playbook, "-i", inventory_of(lab))
    assert not re.search(r"(?m)^(feed|return)", tool.out)


def test_escape_sequences_in_what_a_host_answers(tool):
    """ESC cannot come through the vSphere API, but a shell can send it."""
    from vsphere_ai.cli.main import _show_error
    from vsphere_ai.errors import StepFailed

    _show_error(StepFailed("esx01: \x1b]8;;https://evil.example\x1b\\click \x1b[2J\x07", "remedy \x1b[31m"))
    shown = tool.capsys.readouterr().err
    assert "\x1b" not in shown
    assert harmless(shown) == []


def test_an_apply_names_them_safely(hostile, tool, inventory_of, playbook):
    lab, names = hostile
    lab.post("/lab/reset")
    arguments = ("-i", inventory_of(lab), "--yes")
    play = playbook.with_name("hardware.yml")
    play.write_text(json.dumps([{"vms": "all", "hardware": {"version": 19}}]), encoding="utf-8")
    assert tool("apply", play, *arguments) == 0, tool.out + tool.err
    assert harmless(tool.out + tool.err) == []
    run = re.search(r"Run (\S+)", tool.err)[1]
    for command in (["run", "list"], ["run", "show", run], ["rollback", run, "--yes"]):
        for form in ([], ["-o", "json"]):
            code = tool(*command, *form)
            assert code in (0, 1, 64), f"{command}: {tool.err}"
            assert harmless(tool.out + tool.err) == [], command
            assert tool.out + tool.err
            assert not re.search(r"(?m)^(feed|return)", tool.out), "a line end in a name begins a line"
    done = {e["object"] for e in lab.get("/lab/ledger")["entries"] if e["call"] == "UpgradeVM_Task"}
    assert len(done) == len(names)
    assert tool("apply", play, *arguments, "-o", "json") == 0
    assert harmless(tool.out) == []
