import json
import subprocess
import sys

import pytest
from click.testing import CliRunner

from vsphere_ai.cli.mig import command
from vsphere_ai.errors import VsphereAiError
from vsphere_ai.gpu.catalog import boards


def run(*words):
    return CliRunner().invoke(command, [str(w) for w in words])


def test_a_list_that_does_not_fit():
    result = run("explain", "19,14,9,5,5,2", "--gpu", "a100-40gb")
    assert result.exit_code == 1
    for text in (
        "Does not fit on one NVIDIA A100 40GB",
        "- 14 of 7 compute slices",
        "- 15 of 8 memory slices",
        "- no profile 2 on this GPU",
        "- 4g.20gb fits once, 2 wanted",
        "4-2-1    -cgi 5:0,14:4,19:6",
        "Everything valid in it, on 2 GPUs",
        "GPU 0  4-3      -cgi 5:0,9:4",
    ):
        assert text in result.output


def test_the_same_as_json():
    result = run("explain", "19,14,9,5,5,2", "--gpu", "a100-40gb", "--format", "json")
    data = json.loads(result.output)
    assert result.exit_code == 1
    assert (data["schema_version"], data["fits"], data["board"]) == (1, False, "a100-40gb")
    assert len(data["reasons"]) == 4
    assert data["nearest"][0] == {"layout": "4-2-1", "cgi": "5:0,14:4,19:6"}
    assert [g["layout"] for g in data["pool"]] == ["4-3", "4-2-1"]


def test_a_list_that_fits_is_drawn():
    result = run("explain", "3g.20gb,2g.10gb,19", "--gpu", "a100-40gb")
    assert result.exit_code == 0
    assert "|2g.10gb        |1g.5gb |       |3g.20gb                        |" in result.output
    assert "nvidia-smi mig -i GPU -cgi 9:4,14:0,19:2 -C" in result.output
    data = json.loads(run("explain", "9:0", "--gpu", "a100-40gb", "--format", "json").output)
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
    assert "need driver R510" in result.output


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["19:x", "--gpu", "a100-40gb"], "'19:x' is not a MIG profile"),
        (["19", "--gpu", "a100-50gb"], "unknown GPU board 'a100-50gb'"),
        (["-lgi", "--gpu", "a100-40gb"], "'-lgi' does not belong"),
    ],
)
def test_bad_input_is_the_callers_error(words, said):
    result = run("explain", *words)
    assert isinstance(result.exception, VsphereAiError)
    assert result.exception.exit_code == 64
    assert said in result.exception.message


def test_a_board_without_mig():
    assert "has no MIG" in run("layouts", "t4-16gb").output
    result = run("explain", "9", "--gpu", "t4-16gb")
    assert result.exit_code == 1
    assert "has no MIG" in result.output
    assert json.loads(run("layouts", "t4-16gb", "--format", "json").output)["layouts"] == []


def test_layouts_of_a_board():
    result = run("layouts", "a100-40gb")
    assert "19 layouts fill the GPU" in result.output
    assert "  2-1-1-3        -cgi 14:0,19:2,19:3,9:4" in result.output
    data = json.loads(run("layouts", "a100-40gb", "--driver", "470", "--format", "json").output)
    assert len(data["layouts"]) == 18
    assert data["profiles"][0] == {
        "profile": "1g.5gb",
        "id": 19,
        "compute_slices": 1,
        "memory_slices": 1,
        "starts": [0, 1, 2, 3, 4, 5, 6],
        "max_instances": 7,
    }


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
        "import sys; from vsphere_ai.cli.mig import command\n"
        "print(sorted(m for m in sys.modules if m.startswith(('yaml', 'vsphere_ai.gpu', 'pydantic', 'rich'))))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
