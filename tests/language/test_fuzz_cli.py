"""T-60, T-61, T-57: a sample of the fuzzed files, bombs and break-ins, through the real command line."""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from support.fuzzing import FULL, SEED, made_up, originals, skeletons, spoilt
from support.gates import LONG

MEMORY = 150 << 20
SAMPLE = 200 if FULL else 50
INVENTORY = """vcenters:
  vc: {address: 127.0.0.1, port: 1, username: u, password: "env:H8_PASSWORD", tls: {fingerprint: "%s"}}
hosts: {gpu_hosts: {names: ["esx[01:02].lab.local"]}}
""" % ("ab" * 32)  # fmt: skip
PLAYBOOK = "- hosts: gpu_hosts\n  mig: {mode: enabled}\n"


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with a good playbook and a good inventory, of a vCenter that is not there."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("H8_PASSWORD", "hunter2hunter2")
    monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(tmp_path / "no-lab"))
    Path("inventory.yml").write_text(INVENTORY)
    Path("play.yml").write_text(PLAYBOOK)
    return tmp_path


@pytest.fixture
def tool(here, capsys):
    def run(*arguments):
        from vsphere_ai.cli.main import main

        code = main([str(a) for a in arguments])
        return code, *capsys.readouterr()

    return run


COMMANDS = {
    "playbook": ["plan", "file.yml", "-i", "inventory.yml"],
    "inventory": ["plan", "play.yml", "-i", "file.yml"],
    "scenario": ["lab", "up", "--scenario", "file.yml"],
    "faults": ["lab", "up", "--faults", "file.yml"],
}


@pytest.mark.parametrize("kind", ["playbook", "inventory"])
def test_a_sample_through_the_command_line(tool, kind):
    codes = set()
    for number in range(SAMPLE // 2):
        chance = random.Random(f"{SEED} cli {kind} {number}")
        make, sources = (spoilt, originals(kind)) if number % 2 else (made_up, skeletons(kind))
        Path("file.yml").write_bytes(make(chance, sources))
        code, out, err = tool(*COMMANDS[kind])
        # what can be read goes on to a vCenter or a password that is not there
        assert code in (4, 5, 64, 65), (number, err)
        assert "Traceback" not in err
        assert "internal error" not in err
        assert out == ""
        if code == 65:
            assert re.search(r"(?m)^file\.yml:\d+:\d+  error  ", err) or "play.yml:1:3" in err, (number, err)
        codes.add(code)
    assert 65 in codes


# -- bombs

DEEP, NESTED = (
    1_000_000,
    "a: &a [x, x, x, x, x, x, x, x, x]\n"
    + "".join(f"{to}: &{to} [{', '.join([f'*{of}'] * 9)}]\n" for of, to in zip("abcdefgh", "bcdefghi", strict=True)),
)


@cache
def bombs():
    return {
        "aliases": NESTED.encode(),
        "depth": b"[" * DEEP,
        "depth of mappings": b"{a: " * (DEEP // 2),
        "depth of dashes": b"- " * DEEP,
        "a scalar of 4 MiB": b"x" * (4 << 20),
        "a key of 4 MiB": b"x" * ((4 << 20) - 8) + b": 1\n",
        "10^6 keys": b"".join(b"%d: 1\n" % n for n in range(1_000_000)),
        "keys up to 4 MiB": b"".join(b"%d: 1\n" % n for n in range(400_000)),
        "10^5 keys given twice": b"a: 1\n" * 100_000,
        "nul": b"- hosts: a\0b\n",
        "two byte order marks": b"\xef\xbb\xbf\xef\xbb\xbf- {}\n",
        "utf-16": "- hosts: all\n".encode("utf-16"),
        "latin-1": "- name: T\xfcr\n".encode("latin-1"),
        "tabs": b"-\thosts: all\n\tmig: {}\n",
        "object": b"- !!python/object/apply:os.system [touch pwned]\n",
        "merge keys": b"- &a {hosts: all}\n- <<: *a\n",
    }


MEASURE = """
import contextlib, io, json, re, sys, time
from pathlib import Path
from vsphere_ai.cli.main import main
import vsphere_ai.language.playbooks.playbook, vsphere_ai.app.estate.session, vsphere_ai.resources
import vsphere_ai.lab.scenario_file
import vsphere_ai.lab.faults.rule_file
vsphere_ai.resources.kinds()
for bomb in sorted(Path("bombs").iterdir()):
    said = io.StringIO()
    print(json.dumps({"begun": bomb.name}), flush=True)
    begun = time.process_time()
    with contextlib.redirect_stderr(said):
        code = main([str(bomb) if a == "file.yml" else a for a in sys.argv[1:]])
    took = time.process_time() - begun
    high = int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) << 10
    print(json.dumps({"name": bomb.name, "code": code, "seconds": took, "memory": high, "said": said.getvalue()}))
"""


@pytest.mark.parametrize("kind", COMMANDS)
def test_bombs_are_refused_at_once_and_in_little_memory(here, kind):
    folder = here / "bombs"
    folder.mkdir()
    for name, content in bombs().items():
        (folder / f"{name}.yml").write_bytes(content)
    argv = [sys.executable, "-c", MEASURE, *COMMANDS[kind]]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=LONG, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, f"ended with {done.returncode}\n{done.stdout[-300:]}\n{done.stderr[-2000:]}"
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    results = [line for line in lines if "code" in line]
    assert {r["name"] for r in results} == {f"{name}.yml" for name in bombs()}
    for result in results:
        said = result["said"]
        assert result["code"] == 65, result
        assert f"bombs/{result['name']}" in said
        assert "Traceback" not in said
        assert len(said) < 100_000, result["name"]
        assert result["seconds"] <= 1.0, result
        assert result["memory"] <= MEMORY, result
    assert not (here / "pwned").exists()
