import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from vsphere_ai.cli.reference.mig import command
from vsphere_ai.errors import VsphereAiError
from vsphere_ai.gpu.catalog import boards


def run(*words):
    return CliRunner().invoke(command, [str(w) for w in words])


def asked(*words):
    """Run a command as JSON; return its exit code and what it answers."""
    result = run(*words, "-o", "json")
    return result.exit_code, json.loads(result.output)


def test_a_list_that_does_not_fit():
    """Its text is the screen `mig-explain-does-not-fit`."""
    code, data = asked("explain", "19,14,9,5,5,2", "--gpu", "a100-40gb")
    assert code == 1
    assert (data["schema_version"], data["fits"], data["board"]) == (1, False, "a100-40gb")
    numbers = [re.findall(r"[0-9g.]+(?:gb)?\b", reason) for reason in data["reasons"]]
    assert [n for n in numbers if "g" not in n] == [["14", "7"], ["15", "8"], ["2"], ["4g.20gb", "2"]], data["reasons"]
    assert data["nearest"][0] == {"layout": "4-2-1", "cgi": "5:0,14:4,19:6"}
    assert [g["layout"] for g in data["pool"]] == ["4-3", "4-2-1"]


def test_a_list_that_fits_is_drawn():
    result = run("explain", "3g.20gb,2g.10gb,19", "--gpu", "a100-40gb")
    assert result.exit_code == 0
    assert "|2g.10gb        |1g.5gb |       |3g.20gb                        |" in result.output
    assert "nvidia-smi mig -i GPU -cgi 9:4,14:0,19:2 -C" in result.output
    data = json.loads(run("explain", "9:0", "--gpu", "a100-40gb", "-o", "json").output)
    assert data["instances"] == [{"profile": "3g.20gb", "id": 9, "start": 0}]
    assert data["cgi"] == "9:0"


@pytest.mark.parametrize(
    "words",
    [
        ["nvidia-smi mig -i 0 -cgi 19,14,9 -C"],
        ["nvidia-smi", "mig", "-i", "0", "-cgi", "19,14,9", "-C"],
        ["-cgi", "19,14,9", "-C"],
        ["-cgi 19,14,9 -C"],
    ],
)
def test_pasted_commands(words):
    result = run("explain", *words, "--gpu", "a100-40gb")
    assert result.exit_code == 0, result.output
    assert "9:4,14:0,19:2" in result.output


def test_old_driver():
    assert run("explain", "5,9", "--gpu", "a100-40gb").exit_code == 0
    result = run("explain", "5,9", "--gpu", "a100-40gb", "--driver", "470")
    assert result.exit_code == 1
    assert "R510" in result.output


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["19:x", "--gpu", "a100-40gb"], "'19:x'"),
        (["19", "--gpu", "a100-50gb"], "'a100-50gb'"),
        (["-lgi", "--gpu", "a100-40gb"], "'-lgi'"),
    ],
)
def test_bad_input_is_the_callers_error(words, said):
    result = run("explain", *words)
    assert isinstance(result.exception, VsphereAiError)
    assert result.exception.exit_code == 64
    assert said in result.exception.message


def test_a_board_without_mig():
    assert "NVIDIA T4 16GB" in run("layouts", "t4-16gb").output
    code, data = asked("explain", "9", "--gpu", "t4-16gb")
    assert (code, data["fits"], len(data["reasons"])) == (1, False, 1)
    assert "NVIDIA T4 16GB" in run("explain", "9", "--gpu", "t4-16gb").output
    assert asked("layouts", "t4-16gb")[1]["layouts"] == []


def test_layouts_of_a_board():
    result = run("layouts", "a100-40gb")
    assert result.output.count(" -cgi ") == 19
    assert "  2-1-1-3        -cgi 14:0,19:2,19:3,9:4" in result.output
    data = json.loads(run("layouts", "a100-40gb", "--driver", "470", "-o", "json").output)
    assert len(data["layouts"]) == 18
    assert data["profiles"][0] == {
        "profile": "1g.5gb",
        "id": 19,
        "compute_slices": 1,
        "memory_slices": 1,
        "starts": [0, 1, 2, 3, 4, 5, 6],
        "max_instances": 7,
    }


FROM = ["--from", "3g.20gb:4,1g.5gb:0"]


def test_explain_from_what_stands_there():
    result = run("explain", "4g.20gb,3g.20gb", "--gpu", "a100-40gb", *FROM)
    code, data = asked("explain", "4g.20gb,3g.20gb", "--gpu", "a100-40gb", *FROM)
    assert (result.exit_code, code, data["fits"]) == (0, 0, True)
    assert [len(data[k]) for k in ("destroyed", "created", "kept", "commands")] == [1, 1, 1, 0]
    assert "nvidia-smi" not in result.output
    held = ("explain", "4g.20gb,3g.20gb", "--gpu", "a100-40gb", *FROM, "--in-use", "1g.5gb:0=train-03")
    code, data = asked(*held)
    assert (code, data["fits"]) == (1, False)
    (reason,) = data["reasons"]
    assert {"1g.5gb", "0", "train-03"} <= set(reason.split())
    assert "1g.5gb at 0 (train-03)" in run(*held).output


def test_plan_prints_pictures_and_commands_in_order():
    result = run("plan", "4g.20gb,3g.20gb", "--gpu", "a100-40gb", *FROM)
    assert result.exit_code == 0
    assert [line for line in result.output.splitlines() if "nvidia-smi mig -i" in line] == [
        "  nvidia-smi mig -i GPU -dci -gi ID",
        "  nvidia-smi mig -i GPU -dgi -gi ID",
        "  nvidia-smi mig -i GPU -cgi 5:0 -C",
    ]
    assert re.search(r"# .*1g\.5gb at 0.*nvidia-smi mig -lgi", result.output)
    assert result.output.index("|1g.5gb |       |") < result.output.index("|4g.20gb      ")
    assert asked("plan", "9,19", "--gpu", "a100-40gb", *FROM)[1]["commands"] == []


def test_plan_as_json():
    data = json.loads(run("plan", "4g.20gb,3g.20gb", "--gpu", "a100-40gb", *FROM, "-o", "json").output)
    assert data["fits"]
    assert data["destroyed"] == [{"profile": "1g.5gb", "start": 0}]
    assert data["created"] == [{"profile": "4g.20gb", "start": 0}]
    assert data["kept"] == [{"profile": "3g.20gb", "start": 4}]
    assert data["commands"][-1]["command"] == "nvidia-smi mig -i GPU -cgi 5:0 -C"
    assert data["before"] != data["after"]
    refused = run("plan", "7g.40gb", "--gpu", "a100-40gb", *FROM, "--in-use", "9:4", "-o", "json")
    data = json.loads(refused.output)
    assert (refused.exit_code, data["fits"]) == (1, False)
    assert data["present"][1] == {"profile": "3g.20gb", "start": 4, "in_use": True}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["9"], "no GPU was named"),
        (["9", "--gpu", "a100-40gb", "--from", "9"], "start is missing"),
        (["9", "--host", "esx01", "--from", "9:0"], "are read from the host"),
        (["9", "--host", "esx01", "--driver", "470"], "are read from the host"),
    ],
)
def test_a_plan_that_cannot_be_asked_for(words, said):
    result = run("plan", *words)
    assert isinstance(result.exception, VsphereAiError)
    assert result.exception.exit_code == 64
    assert said in result.exception.message


@pytest.mark.parametrize("board", [b for b in boards() if b.profiles], ids=lambda b: b.key)
def test_plans_fit_in_80_columns(board):
    whole, small = board.profiles[-1], board.profiles[0]
    standing = f"{small.name}:{small.starts[0]}"
    for more in ((), ("--in-use", f"{standing}=a-virtual-machine-with-a-long-name")):
        result = run("plan", whole.name, "--gpu", board.key, "--from", standing, *more)
        assert result.output.isascii()
        assert max(len(line) for line in result.output.splitlines()) <= 80, result.output


PARTED = """\
version: v1
mig-configs:
  off: [{devices: all, mig-enabled: false}]
  empty: [{devices: all, mig-enabled: true, mig-devices: {}}]
  balanced:
    - {device-filter: "0x20F110DE", devices: all, mig-enabled: true, mig-devices: {"1g.5gb": 2, "3g.20gb": 1}}
    - {device-filter: "0x20B210DE", devices: all, mig-enabled: true, mig-devices: {"1g.10gb": 1}}
  single:
    - {devices: [0], mig-enabled: true, mig-devices: {"7g.40gb": 1}}
    - {devices: [1], mig-enabled: false}
  much: [{devices: all, mig-enabled: true, mig-devices: {"3g.20gb": 2, "1g.5gb": 1}}]
"""


@pytest.fixture
def parted(tmp_path):
    path = tmp_path / "parted.yml"
    path.write_text(PARTED)
    return path


def test_configurations_of_mig_parted_are_said_as_plays(parted):
    result = run("parted", parted, "--gpu", "a100-40gb")
    assert result.exit_code == 1
    assert result.output == (
        "# off\n- hosts: gpu_hosts\n  mig: {mode: disabled}\n\n"
        "# empty\n- hosts: gpu_hosts\n  mig: {mode: enabled, layout: []}\n\n"
        "# balanced\n- hosts: gpu_hosts\n  mig: {mode: enabled, "
        'layout: ["1g.5gb:0", "1g.5gb:1", "3g.20gb:4"]}\n\n'
        '# single\n# GPU 0: mig: {mode: enabled, layout: ["7g.40gb:0"]}\n'
        "# with --host it is said as a play, which names GPUs by PCI address\n"
        "# GPU 1: mig: {mode: disabled}\n"
        "# with --host it is said as a play, which names GPUs by PCI address\n\n"
        "# much\n# does not fit on a100-40gb: 9 of 8 memory slices\n"
    )
    assert run("parted", parted, "balanced", "--gpu", "a100-40gb").exit_code == 0


def test_what_mig_parted_means_is_a_play_that_loads(parted, tmp_path):
    from vsphere_ai.language.playbooks.playbook import load_playbook
    from vsphere_ai.resources import kinds

    for name in ("off", "empty", "balanced"):
        play = tmp_path / f"{name}.yml"
        play.write_text(run("parted", parted, name, "--gpu", "a100-40gb").output)
        assert len(load_playbook(play, kinds()).plays) == 1


def test_configurations_as_json(parted):
    data = json.loads(run("parted", parted, "--gpu", "h100-80gb-sxm", "-o", "json").output)
    found = {c["config"]: c for c in data["configs"]}
    assert (found["balanced"]["applies"], found["balanced"]["mig_enabled"]) == (False, None)
    assert not found["much"]["fits"]
    assert any("3g.20gb" in r for r in found["much"]["reasons"])
    assert [c["config"] for c in data["configs"]].count("single") == 2
    assert "- hosts:" not in run("parted", parted, "balanced", "--gpu", "h100-80gb-sxm").output


def test_all_devices_are_those_with_mig(parted):
    """mig-parted leaves GPUs without MIG alone where an entry is about all of them."""
    for config in ("empty", "off"):
        result = run("parted", parted, config, "--gpu", "t4-16gb")
        assert result.exit_code == 0
        assert "# says nothing of t4-16gb, which has no MIG" in result.output
    named = parted.parent / "named.yml"
    named.write_text(
        "version: v1\nmig-configs:\n  one:\n    - {devices: [0], mig-enabled: true, mig-devices: {1g.5gb: 1}}\n",
        "utf-8",
    )
    assert run("parted", named, "--gpu", "t4-16gb").exit_code == 1


def test_a_fault_in_another_configuration_is_no_matter(parted):
    file = parted.parent / "other.yml"
    good = "  good:\n    - {devices: all, mig-enabled: true, mig-devices: {3g.20gb: 2}}\n"
    bad = "  bad:\n    - {devices: all, mig-enabled: true, mig-devices: {3G: 1}}\n"
    file.write_text(f"version: v1\nmig-configs:\n{bad}{good}", "utf-8")
    assert run("parted", file, "good", "--gpu", "a100-40gb").exit_code == 0
    assert "3G" in str(run("parted", file, "bad", "--gpu", "a100-40gb").exception.diagnostics)
    assert "3G" in str(run("parted", file, "--gpu", "a100-40gb").exception.diagnostics)


COMPUTE = """\
version: v1
mig-configs:
  parts: [{devices: all, mig-enabled: yes, mig-devices: {"1c.3g.20gb": 4}}]
  larger: [{devices: all, mig-enabled: true, mig-devices: {"1c.3g.20gb": 7}}]
  many: [{devices: all, mig-enabled: true, mig-devices: {"1g.5gb": 1000000000}}]
  other: [{devices: all, device-filter: "20B0", mig-enabled: false}]
"""


def test_compute_instances_are_checked_as_the_gpu_instances_that_they_need(parted):
    """Six parts of one slice fill two GPU instances of three; mig-parted begins a third one for the seventh."""
    parted.write_text(COMPUTE, "utf-8")
    fitting = run("parted", parted, "parts", "--gpu", "a100-40gb")
    assert (fitting.exit_code, fitting.output) == (
        0,
        "# parts\n# a100-40gb: 4 of 1c.3g.20gb in 3g.20gb:0, 3g.20gb:4: mig-parted makes them, "
        "a play has no compute instances\n",
    )
    (found,) = json.loads(run("parted", parted, "parts", "--gpu", "a100-40gb", "-o", "json").output)["configs"]
    assert (found["fits"], found["layout"], len(found["compute_instances"])) == (True, ["3g.20gb:0", "3g.20gb:4"], 4)
    assert run("parted", parted, "larger", "--gpu", "a100-40gb").exit_code == 1
    many = run("parted", parted, "many", "--gpu", "a100-40gb")
    assert (many.exit_code, "more than 64 instances on a GPU" in many.output) == (1, True)


def test_what_mig_parted_surely_misreads_is_a_remark_with_its_place(parted):
    parted.write_text(COMPUTE, "utf-8")
    result = run("parted", parted, "other", "--gpu", "a100-40gb")
    assert result.exit_code == 0
    assert "# says nothing of a100-40gb" in result.output
    assert f"{parted}:6:41: '20B0' is not a device id of NVIDIA" in result.stderr


def test_the_empty_layout_takes_everything_away():
    result = run("plan", "[]", "--gpu", "a100-40gb", "--from", "3g.20gb:4,1g.5gb:0")
    assert result.exit_code == 0
    assert "2 destroyed, 0 created, 0 kept." in result.output
    assert "-cgi" not in result.output
    assert "This is the wanted layout." in run("plan", "", "--gpu", "a100-40gb").output
    assert run("plan", "[]", "--gpu", "a100-40gb", "--from", "1g.5gb:0", "--in-use", "1g.5gb:0").exit_code == 1


@pytest.mark.parametrize(
    ("gpu", "said"),
    [
        ("h100", "give one of h100-80gb-sxm, h100-80gb-pcie, h100-94gb, h100-64gb, h100-96gb"),
        ("A100", "give one of a100-40gb, a100-64gb, a100-80gb"),
        ("b200", "did you mean b200-180gb?"),
        ("gh200", "give one of gh200-96gb, gh200-144gb"),
    ],
)
def test_the_boards_that_begin_so_are_listed(gpu, said):
    error = run("explain", "9", "--gpu", gpu).exception
    assert isinstance(error, VsphereAiError)
    assert said in error.remedy


def test_a_gh200_with_96_gb_is_found():
    assert run("explain", "3g.48gb", "--gpu", "gh200-96gb").exit_code == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["parted.yml"], "nothing to check"),
        (["parted.yml", "--gpu", "a100-40gb", "--host", "esx01"], "nothing to check"),
        (["--gpu", "a100-40gb"], "nothing to check"),
        (["parted.yml", "--from-host", "esx01"], "nothing to check"),
        (["parted.yml", "blanced", "--gpu", "a100-40gb"], "no configuration 'blanced'"),
    ],
)
def test_parted_that_cannot_be_asked_for(parted, monkeypatch, words, said):
    monkeypatch.chdir(parted.parent)
    result = run("parted", *words)
    assert isinstance(result.exception, VsphereAiError)
    assert said in result.exception.message


def test_faults_of_a_file_are_shown_with_their_place(parted):
    parted.write_text("version: v1\nmig-configs: {a: [{devices: all}]}\n")
    result = run("parted", parted, "--gpu", "a100-40gb")
    assert result.exception.exit_code == 65
    (found,) = result.exception.diagnostics
    assert (found.mark.line, "mig-enabled" in found.message) == (2, True)


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_plan_for_a_board_without_mig_says_so(form):
    result = run("plan", "9", "--gpu", "t4-16gb", "-o", form)
    assert result.exit_code == 1
    assert "NVIDIA T4 16GB" in result.output
    assert "+---" not in result.output


@pytest.mark.parametrize("board", boards(), ids=lambda b: b.key)
def test_output_is_plain_and_fits_in_80_columns(board):
    for result in (
        run("layouts", board.key),
        run("explain", "0", "--gpu", board.key),
        run("explain", "99,0,0", "--gpu", board.key),
    ):
        assert result.output.isascii()
        assert max(len(line) for line in result.output.splitlines()) <= 80
        if board.mig_capable:
            assert ("publishes no ids" in result.output) == (not board.verified)


def test_help_does_not_load_the_catalogue():
    code = (
        "import sys; from vsphere_ai.cli.reference.mig import command\n"
        "print(sorted(m for m in sys.modules if m.startswith(('yaml', 'vsphere_ai.gpu', 'pydantic', 'rich'))))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# -- a board of which NVIDIA publishes the names of profiles alone


PRO = ("--gpu", "rtx-pro-5000-blackwell")


def test_what_is_not_published_is_not_refused_as_impossible():
    for question in ("explain", "plan"):
        code, data = asked(question, "1g.12gb,14", *PRO)
        assert (code, data["fits"], len(data["reasons"])) == (1, None, 1)
        assert "Not known" in run(question, "1g.12gb,14", *PRO).output, "neither yes nor no"


def test_a_profile_the_board_does_not_have_is_impossible_all_the_same():
    for question in ("explain", "plan"):
        code, data = asked(question, "3g.20gb", *PRO)
        assert (code, data["fits"]) == (1, False)
        assert any("3g.20gb" in reason for reason in data["reasons"])
        assert "Not known" not in run(question, "3g.20gb", *PRO).output


def test_its_profiles_are_listed_by_name():
    assert "1g.12gb, 1g.12gb+me, 1g.12gb+gfx, 1g.12gb-me" in run("layouts", PRO[1]).output
    data = json.loads(run("layouts", PRO[1], "-o", "json").output)
    assert (data["profiles"], data["layouts"], len(data["named_profiles"])) == ([], [], 7)
    assert json.loads(run("layouts", "a100-40gb", "-o", "json").output)["named_profiles"] == []


# -- board and driver from an answer of nvidia-smi


XML = Path(__file__).parents[1] / "gpu" / "fixtures" / "xml"
A100_XML = (XML / "a100.xml").read_text("utf-8")


def test_the_board_and_the_driver_may_come_from_a_file():
    result = run("explain", "4g.20gb,3g.20gb", "--xml", XML / "a100.xml")
    assert result.exit_code == 0
    data = asked("explain", "4g.20gb,3g.20gb", "--xml", XML / "a100.xml")[1]
    assert (data["board"], data["fits"]) == ("a100-40gb", True)
    source, mode = data["notes"]
    assert all(value in source for value in ("570.148.08", "1 × NVIDIA A100-SXM4-40GB", "0000:06:00.0"))
    assert "0000:06:00.0: MIG is off" in mode
    assert source in result.output
    assert mode in result.output
    data = asked("explain", "9", "--xml", XML / "h100.xml")[1]
    assert (data["board"], len(data["notes"])) == ("h100-80gb-sxm", 2)
    assert asked("explain", "9", "--xml", XML / "t4.xml")[1]["board"] == "t4-16gb"


def test_the_drivers_limits_hold(tmp_path):
    old = tmp_path / "old.xml"
    old.write_text(A100_XML.replace("570.148.08", "470.256.02"), "utf-8")
    result = run("explain", "4g.20gb,3g.20gb", "--xml", old)
    assert result.exit_code == 1
    assert "R510" in result.output
    old.write_text(A100_XML.replace("570.148.08", "beta"), "utf-8")
    assert run("explain", "4g.20gb,3g.20gb", "--xml", old).exit_code == 0


def test_standard_input_will_do():
    result = CliRunner().invoke(command, ["explain", "9", "--xml", "-"], input=A100_XML)
    assert result.exit_code == 0, result.output


def mig_devices(text):
    device = (
        "<mig_device><index>{0}</index><gpu_instance_id>{1}</gpu_instance_id>"
        "<compute_instance_id>0</compute_instance_id></mig_device>"
    )
    start, end = text.index("<mig_devices>") + len("<mig_devices>"), text.index("</mig_devices>")
    text = text.replace("<current_mig>Disabled", "<current_mig>Enabled")
    end += len("Enabled") - len("Disabled")
    return text[:start] + device.format(0, 2) + device.format(1, 7) + text[end:]


def test_instances_whose_place_is_not_told_are_pointed_out(tmp_path):
    here = tmp_path / "here.xml"
    here.write_text(mig_devices(A100_XML), "utf-8")
    _, unplaced = asked("explain", "9", "--xml", here)[1]["notes"]
    assert "0000:06:00.0 has 2 GPU instances" in unplaced
    placed = asked("explain", "9,9", "--xml", here, "--from", "3g.20gb:0")[1]
    assert [len(placed[k]) for k in ("created", "kept", "notes")] == [1, 1, 1]


def test_a_mode_that_waits_is_said_to():
    waits = A100_XML.replace("<pending_mig>Disabled", "<pending_mig>Enabled")
    waiting = ["explain", "9", "--xml", "-", "-o", "json"]
    notes = [
        json.loads(CliRunner().invoke(command, waiting, input=xml).output)["notes"][1] for xml in (waits, A100_XML)
    ]
    assert notes[0] != notes[1]
    assert "MIG is off now" in notes[0]


def test_a_file_about_several_boards_needs_a_choice(tmp_path):
    start, end = A100_XML.index("<gpu id="), A100_XML.index("</gpu>") + len("</gpu>")
    other = A100_XML[start:end].replace("20B010DE", "20B210DE").replace("06:00.0", "07:00.0")
    both = tmp_path / "both.xml"
    both.write_text(A100_XML[:end] + other + A100_XML[end:], "utf-8")
    error = run("explain", "9", "--xml", both).exception
    assert error.exit_code == 64
    assert "a100-40gb, a100-80gb" in error.message
    chosen = run("explain", "9", "--xml", both, "--gpu", "a100-80gb")
    assert "1 × NVIDIA A100-SXM4-40GB (0000:07:00.0)" in chosen.output
    assert "a100-40gb, a100-80gb" in run("explain", "9", "--xml", both, "--gpu", "a30-24gb").exception.message


@pytest.mark.parametrize(
    ("text", "words", "said"),
    [
        (A100_XML, ["--driver", "470"], "--driver was given"),
        ("+----+", [], "is no answer of nvidia-smi -q -x"),
        (A100_XML.replace("20B010DE", "7FFF10DE"), [], "its GPUs are NVIDIA A100-SXM4-40GB"),
        (A100_XML.replace("20B010DE", "N/A"), [], "its GPUs are NVIDIA A100-SXM4-40GB"),
        ("<nvidia_smi_log/>", [], "its GPUs are no GPU"),
        (None, [], "there is no file"),
    ],
)
def test_a_file_that_does_not_tell(tmp_path, text, words, said):
    file = tmp_path / "gpu.xml"
    if text is not None:
        file.write_text(text, "utf-8")
    error = run("explain", "9", "--xml", file, *words).exception
    assert error.exit_code == 64
    assert said in error.message


def test_a_folder_is_no_answer(tmp_path):
    assert "cannot be read" in run("explain", "9", "--xml", tmp_path).exception.message


def test_without_board_and_file_there_is_no_question():
    assert "no GPU was named" in run("explain", "9").exception.message
