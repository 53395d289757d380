"""The wheel, away from the clone: it is built without a network, and its first steps need nothing else."""

from __future__ import annotations

import configparser
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version
from support.gates import LONG
from support.places import ROOT
from support.required import required

from vsphere_ai import __version__
from vsphere_ai.lab.front import process

SETUP = configparser.ConfigParser()
SETUP.read(ROOT / "setup.cfg")
LOCK = (ROOT / "requirements.lock").read_text("utf-8")
CARRIED = ("playbooks", "inventories", "integrations")
EPOCH = 1_700_000_000
NAMED = re.compile(r"^([\w.-]+)==([\w.]+)(?: ; ([^\\]+?))? \\$", re.MULTILINE)
PYTHONS = ("3.11", "3.12", "3.13")


def locked(python):
    """The packages of the lock for a version of Python on Linux."""
    where = {"python_full_version": f"{python}.0", "python_version": python}
    found = {}
    for name, version, marker in NAMED.findall(LOCK):
        if not marker or Requirement(f"{name} ; {marker}").marker.evaluate(where):
            found[name] = Version(version)
    return found


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel, built from a copy of what git has, by the setuptools that is installed."""
    version = subprocess.run([sys.executable, "-c", "import setuptools; print(setuptools.__version__)"],
                             capture_output=True, text=True, check=False).stdout  # fmt: skip
    required(version and Version(version.strip()) >= Version("77"), "setuptools 77 or later: pip install -e '.[dev]'")
    source, target = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for folder in ("vsphere_ai", "docs", *CARRIED):
        shutil.copytree(ROOT / folder, source / folder, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("setup.cfg", "pyproject.toml", "MANIFEST.in", "README.md", "CHANGELOG.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    subprocess.run([sys.executable, "-m", "tools.docgen.man", source / "man"], cwd=ROOT, check=True)
    options = ("--no-build-isolation", "--no-deps", "--no-index", "--quiet", "--wheel-dir")
    argv = [sys.executable, "-m", "pip", "wheel", *options, target, source]
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(EPOCH)}
    built = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=LONG, check=False)
    assert built.returncode == 0, built.stderr
    (path,) = target.iterdir()
    return path


@pytest.fixture(scope="module")
def prefix(wheel, tmp_path_factory):
    """An environment with the wheel, as pipx makes one; what it requires comes from the environment of the tests."""
    folder = tmp_path_factory.mktemp("prefix")
    venv.create(folder, with_pip=False, symlinks=True)
    python = folder / "bin" / "python"
    argv = [sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-index", "--quiet", wheel]
    subprocess.run(argv, check=True, capture_output=True)
    site = Path(sysconfig.get_path("purelib", vars={"base": str(folder), "platbase": str(folder)}))
    (site / "required.pth").write_text(f"{sysconfig.get_path('purelib')}\n", "utf-8")
    return folder


def test_the_wheel_carries_docs_schemas_examples_and_manual(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        assert {each.date_time[0] for each in archive.infolist()} == {2023}, "files are as old as SOURCE_DATE_EPOCH"
    inside = {name.partition("/")[2] for name in names if name.startswith("vsphere_ai/")}
    wanted = {
        str(p.relative_to(ROOT)) for f in ("docs",) for p in (ROOT / f).rglob("*.md") if "decisions" not in p.parts
    }
    wanted |= {str(p.relative_to(ROOT)) for name in ("schemas", "pictures") for p in (ROOT / "docs" / name).iterdir()}
    for folder in CARRIED:
        files = (p for p in (ROOT / folder).rglob("*") if p.is_file() and p.suffix != ".pyc")
        wanted |= {f"examples/{p.relative_to(ROOT)}" for p in files}
    wanted |= {str(p.relative_to(ROOT / "vsphere_ai")) for p in (ROOT / "vsphere_ai").rglob("*.py")}
    assert sorted(wanted - inside) == []
    assert not [name for name in names if name.endswith(".pyc") or "tests/" in name]
    assert f"vsphere_ai-{__version__}.data/data/share/man/man1/vsphere-ai-apply.1" in names


@pytest.mark.lab
def test_the_first_steps_need_nothing_but_the_wheel(prefix, tmp_path):
    program = str(prefix / "bin" / "vsphere-ai")
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "VSPHERE_AI_STATE_DIR": str(tmp_path / "state")}

    def run(*words):
        done = subprocess.run([program, *words], cwd=tmp_path, env=environment, capture_output=True, text=True,
                              timeout=LONG, check=False)  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    place = subprocess.run([prefix / "bin" / "python", "-c", "import vsphere_ai; print(vsphere_ai.__file__)"],
                           cwd=tmp_path, capture_output=True, text=True, check=True)  # fmt: skip
    assert place.stdout.startswith(str(prefix))
    assert run("--version").strip() == f"vsphere-ai, version {__version__}"
    try:
        run("lab", "up")
        run("examples", "--to", "first")
        shown = run("plan", "-i", "first/inventories/lab.yml", "first/playbooks/hardware-upgrade.yml")
        assert "train-[01:04]" in shown
        assert "shared_direct" in run("explain", "graphics")
        assert json.loads(run("schema", "playbook"))["$schema"].startswith("http://json-schema.org/draft-07")
    finally:
        process.stop(tmp_path / "state" / "lab")


@pytest.mark.parametrize("python", PYTHONS)
def test_the_lock_satisfies_what_is_required(python):
    found = locked(python)
    lines = SETUP["options"]["install_requires"] + SETUP["options.extras_require"]["web"]
    requirements = [Requirement(line) for line in lines.strip().splitlines() if line]
    assert len(requirements) > 12
    for each in requirements:
        name = each.name.lower().replace("_", "-")
        assert name in found, f"{name} is not in requirements.lock: make lock"
        assert each.specifier.contains(found[name]), f"{name} {found[name]} is not {each.specifier}: make lock"


def test_the_lock_has_checksums_and_no_address():
    assert "://" not in LOCK
    assert "--index" not in LOCK
    assert "--find-links" not in LOCK
    blocks = re.split(r"(?m)^(?=[\w.-]+==)", LOCK)[1:]
    assert len(blocks) == len(NAMED.findall(LOCK)) > 25
    assert [b.splitlines()[0] for b in blocks if not re.search(r"--hash=sha256:[0-9a-f]{64}", b)] == []


def test_every_python_that_is_allowed_is_named():
    allowed = SpecifierSet(SETUP["options"]["python_requires"])
    named = re.findall(r"Python :: (3\.\d+)$", SETUP["metadata"]["classifiers"], re.MULTILINE)
    assert tuple(named) == PYTHONS
    assert all(allowed.contains(f"{each}.0") for each in named)
    assert not allowed.contains("3.10.14")
    page = (ROOT / "docs" / "install.md").read_text("utf-8")
    assert all(each in page for each in named)


def locked_to_one_small_wheel(context, home):
    """Write a lock of one small wheel, and make an environment whose pip takes it from a folder; returns variables."""
    links = context.with_name("links")
    links.mkdir()
    small = links / "small-1-py3-none-any.whl"
    with zipfile.ZipFile(small, "w") as archive:
        archive.writestr("small.py", "")
        archive.writestr("small-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: small\nVersion: 1\n")
        archive.writestr("small-1.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr("small-1.dist-info/RECORD", "")
    digest = hashlib.sha256(small.read_bytes()).hexdigest()
    (context / "requirements.lock").write_text(f"small==1 \\\n    --hash=sha256:{digest}\n", "utf-8")
    venv.create(home, with_pip=False, symlinks=True)
    pip = home / "bin" / "pip"
    pip.write_text(f'#!/bin/sh\nexec {sys.executable} -m pip --python {home}/bin/python "$@"\n', "utf-8")
    pip.chmod(0o755)
    return {**os.environ, "PATH": f"{home}/bin:/usr/bin:/bin", "PIP_FIND_LINKS": str(links), "PIP_NO_INDEX": "1"}


def test_the_container_installs_the_wheel_by_its_own_lines(wheel, tmp_path):
    """RUN lines are carried out in a virtual environment, with a lock of one small wheel; no user is made."""
    text = (ROOT / "integrations" / "container" / "Containerfile").read_text("utf-8")
    lines = re.findall(r"(?m)^(RUN|USER|VOLUME|ENTRYPOINT|COPY|FROM|ENV) (.+)$", text)
    given = {word: rest for word, rest in lines if word != "RUN"}
    assert given["USER"] == "vsphere-ai"
    assert given["VOLUME"] == "/state"
    assert "VSPHERE_AI_STATE_DIR=/state" in given["ENV"]
    assert json.loads(given["ENTRYPOINT"]) == ["vsphere-ai"]
    assert given["COPY"].split() == ["requirements.lock", "dist/*.whl", "/tmp/vsphere-ai/"]
    runs = [rest for word, rest in lines if word == "RUN"]
    assert [run for run in runs if run.startswith("useradd ")] == runs[-1:]
    assert "/state" in runs[-1]

    context, home = tmp_path / "context", tmp_path / "image"
    context.mkdir()
    shutil.copy(wheel, context)
    environment = locked_to_one_small_wheel(context, home)
    for line in runs[:-1]:
        line = line.replace("/tmp/vsphere-ai", shlex.quote(str(context)))
        done = subprocess.run(["sh", "-e", "-c", line], env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    assert not context.exists()
    assert (home / "bin" / "vsphere-ai").exists()
    listed = subprocess.run(
        [home / "bin" / "pip", "list", "--format", "json"], env=environment, capture_output=True, check=True
    )
    assert {each["name"].replace("_", "-") for each in json.loads(listed.stdout)} == {"small", "vsphere-ai"}


def test_a_recipe_for_ci_installs_the_wheel_and_its_lock(wheel, tmp_path):
    context, home = tmp_path / "context", tmp_path / "image"
    context.mkdir()
    shutil.copy(wheel, context)
    environment = locked_to_one_small_wheel(context, home)
    recipe = yaml.safe_load((ROOT / "integrations" / "ci" / "gitlab" / "vsphere-ai.gitlab-ci.yml").read_text("utf-8"))
    environment |= {name: Path(recipe["variables"][name]).name for name in ("WHEEL", "LOCK")}

    def installed():
        lines = "\n".join(recipe[".vsphere-ai"]["before_script"])
        return subprocess.run(["sh", "-e", "-c", lines], cwd=context, env=environment, capture_output=True, text=True,
                              check=False)  # fmt: skip

    done = installed()
    assert done.returncode == 0, done.stderr
    assert (home / "bin" / "vsphere-ai").exists()
    (context / "requirements.lock").write_text("small==1 --hash=sha256:" + 64 * "0", "utf-8")
    subprocess.run([home / "bin" / "pip", "uninstall", "-q", "-y", "small"], env=environment, check=True)
    assert "DO NOT MATCH" in installed().stderr
