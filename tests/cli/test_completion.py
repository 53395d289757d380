"""Completion: what a shell offers, in which time, and that nothing it asks is written over the line."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest
from support.programs import needs_program

from vsphere_ai.security import known_names

PROGRAM = shutil.which("vsphere-ai", path=os.path.dirname(sys.executable)) or ""
HOSTILE = ["a b", "$(reboot)", "x;y", "`id`", "quo'te", 'dou"ble', "bra[1]", "new\nline", "tr*", "t,r"]


@pytest.fixture
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("VSPHERE_AI_STATE_DIR", str(tmp_path / "state"))
    known_names.remember("vc-1", {"host": ["esx01", "esx02"], "vm": ["train-01", "train-02", "infra", *HOSTILE]})
    known_names.remember("vc-2", {"datacenter": ["DC0"], "vm": ["train-03"]})
    runs = tmp_path / "state" / "runs"
    runs.mkdir()
    for number, name in enumerate(("20260101-000000-aaaa", "20260102-000000-bbbb")):
        (runs / f"{name}.db").touch()
        os.utime(runs / f"{name}.db", (number, number))
    return tmp_path


def offered(*words, shell="bash"):
    line = " ".join(("vsphere-ai", *words))
    asked = {"_VSPHERE_AI_COMPLETE": f"{shell}_complete", "COMP_WORDS": line, "COMP_CWORD": str(len(words))}
    done = subprocess.run([PROGRAM], env={**os.environ, **asked}, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return [line.partition(",")[2] for line in done.stdout.splitlines()]


def test_names_of_commands_options_and_targets_are_offered(state):
    assert offered("pl") == ["plan"]
    assert offered("plan", "--li") == ["--limit"]
    assert offered("rdma", "tr") == ["trace"]
    assert offered("rdma", "trace", "tr") == ["train-01", "train-02", "train-03"]
    assert offered("rdma", "devices", "e") == ["esx01", "esx02"]
    assert offered("plan", "--limit", "e") == ["esx01", "esx02"]
    assert offered("bench", "nccl", "tr") == ["tr", "train-01", "train-02", "train-03"]  # the first: files
    assert "a100-40gb" in offered("mig", "layouts", "a100")


def test_variables_of_the_playbook_on_the_line_are_offered(state):
    playbook = state / "p.yml"
    playbook.write_text("- vars: {profile: a, port: 1}\n- vms: x\n  vars: {other: 1}\n  vgpu: ['${profile}']\n")
    assert offered("plan", str(playbook), "--var", "p") == ["profile=", "port="]
    assert offered("destroy", str(playbook), "--var", "pr") == ["profile="]
    assert offered("plan", "--var", "p") == []
    playbook.write_text("- vars: [")
    assert offered("plan", str(playbook), "--var", "p") == []


def test_runs_are_offered_newest_first(state):
    assert offered("resume", "2026") == ["20260102-000000-bbbb", "20260101-000000-aaaa"]
    assert offered("rollback", "20260101")[0] == "20260101-000000-aaaa"
    assert offered("show", "D") == ["DC0"]


def test_a_name_that_a_shell_would_read_as_more_is_not_offered(state):
    assert not set(offered("rdma", "trace", "''")) & set(HOSTILE)
    for name in ("a", "x", "quo", "bra", "new"):
        assert offered("rdma", "trace", name) == []


def test_nothing_is_offered_and_nothing_said_where_the_names_cannot_be_read(state):
    for path in (state / "state" / "names").iterdir():
        path.write_bytes(b"\xff{")
    assert offered("rdma", "trace", "tr") == []
    asked = {"_VSPHERE_AI_COMPLETE": "tcsh_complete", "COMP_WORDS": "vsphere-ai ", "COMP_CWORD": "1"}
    done = subprocess.run([PROGRAM], env={**os.environ, **asked}, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "")


def test_an_answer_imports_neither_pydantic_nor_the_api(state):
    code = "import sys; from vsphere_ai.cli.main import command; from vsphere_ai.cli.setup import completion;" \
           "completion.answer(command, 'bash_complete'); print(*sys.modules, file=sys.stderr)"  # fmt: skip
    asked = {"_VSPHERE_AI_COMPLETE": "bash_complete", "COMP_WORDS": "vsphere-ai rdma trace tr", "COMP_CWORD": "3"}
    done = subprocess.run([sys.executable, "-c", code], env={**os.environ, **asked}, capture_output=True, text=True,
                          check=True)  # fmt: skip
    assert "plain,train-01" in done.stdout
    assert not {"pydantic", "pyVmomi", "paramiko", "yaml", "rich"} & set(done.stderr.split())


def test_bash_completes_by_the_script_that_is_installed(state, tmp_path):
    environment = {
        **os.environ,
        "HOME": str(tmp_path),
        "SHELL": "/bin/bash",
        "PATH": f"{os.path.dirname(PROGRAM)}:/bin:/usr/bin",
    }
    environment.pop("XDG_DATA_HOME", None)
    done = subprocess.run(
        [PROGRAM, "completion", "install"], env=environment, capture_output=True, text=True, check=True
    )
    script = tmp_path / ".local/share/bash-completion/completions/vsphere-ai"
    assert str(script) in done.stdout
    typed = f"""
        source {script}
        COMP_WORDS=(vsphere-ai rdma trace train-0); COMP_CWORD=3
        _vsphere_ai_completion vsphere-ai
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    answer = subprocess.run(["bash", "-c", typed], env=environment, capture_output=True, text=True, check=True)
    assert answer.stdout.split() == ["train-01", "train-02", "train-03"]


ZSH, FISH = ".local/share/zsh/site-functions/_vsphere-ai", ".config/fish/completions/vsphere-ai.fish"


@pytest.fixture
def other_shell(tmp_path):
    """The environment of an account with a shell that has no completion."""
    environment = {**os.environ, "HOME": str(tmp_path), "SHELL": "/bin/tcsh"}
    return {k: v for k, v in environment.items() if not k.startswith("XDG_")}


@pytest.mark.parametrize(("shell", "place"), [("zsh", ZSH), ("fish", FISH)])
def test_zsh_and_fish_get_a_script_when_they_are_named(state, other_shell, tmp_path, shell, place):
    refused = subprocess.run(
        [PROGRAM, "completion", "install"], env=other_shell, capture_output=True, text=True, check=False
    )
    assert refused.returncode == 64
    subprocess.run([PROGRAM, "completion", "install", shell], env=other_shell, capture_output=True, check=True)
    script = tmp_path / place
    printed = subprocess.run(
        [PROGRAM, "completion", shell], env=other_shell, capture_output=True, text=True, check=True
    )
    assert script.read_text().strip() == printed.stdout.strip()
    assert f"{shell}_complete" in printed.stdout


@needs_program("zsh")
def test_zsh_accepts_its_script(state, other_shell, tmp_path):
    subprocess.run([PROGRAM, "completion", "install", "zsh"], env=other_shell, capture_output=True, check=True)
    subprocess.run(["zsh", "-n", str(tmp_path / ZSH)], check=True)


@needs_program("fish")
def test_fish_completes_by_its_script(state, other_shell, tmp_path):
    subprocess.run([PROGRAM, "completion", "install", "fish"], env=other_shell, capture_output=True, check=True)
    subprocess.run(["fish", "-n", str(tmp_path / FISH)], check=True)
    code = f"source {tmp_path / FISH}; complete -C 'vsphere-ai rdma trace train-0'"
    own = {**other_shell, "PATH": f"{os.path.dirname(PROGRAM)}:{os.environ['PATH']}"}
    done = subprocess.run(["fish", "-c", code], env=own, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["train-01", "train-02", "train-03"]


def test_names_are_kept_for_the_owner_only_and_written_once(state):
    folder = state / "state" / "names"
    (path,) = folder.glob("vc-1.txt")
    assert [p.stat().st_mode & 0o777 for p in (folder, path)] == [0o700, 0o600]
    before = path.stat().st_ino
    known_names.remember("vc-1", {"host": ["esx02", "esx01"], "vm": ["train-01", "train-02", "infra", *HOSTILE]})
    assert path.stat().st_ino == before
    known_names.remember("vc-1", {"host": ["esx01"]})
    assert known_names.names_of("host") == ["esx01"]
    assert known_names.names_of("vm") == ["train-03"]
