"""T-55: whatever the umask, what the tool writes is its owner's only."""

from __future__ import annotations

import os
import resource
import stat

import pytest
from support.places import PLAYBOOKS

pytestmark = pytest.mark.lab


def modes(folder):
    """Every path below a folder with its permission bits, links refused."""
    found = {}
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        assert not stat.S_ISLNK(status.st_mode), path
        found[str(path.relative_to(folder))] = (path.is_dir(), stat.S_IMODE(status.st_mode))
    return found


@pytest.mark.parametrize("umask", [0o000, 0o002, 0o022, 0o077], ids=lambda u: f"{u:03o}")
def test_files_are_private_whatever_the_umask(lab, inventory_of, outside, tmp_path, umask):
    inventory = inventory_of(lab, known_hosts="keys")
    state = tmp_path / "new" / "state"
    env = {"VSPHERE_AI_STATE_DIR": str(state), "VSPHERE_AI_LAB_DIR": str(lab.directory)}
    before = set(modes(tmp_path))
    pem = (lab.directory / "ca.pem").read_text()
    der = __import__("ssl").PEM_cert_to_DER_cert(pem)
    finger = __import__("hashlib").sha256(der).hexdigest()
    for arguments, code in (
        (["trust", "vcenter", "--fingerprint", finger, "--yes", "--write"], 0),
        (["plan", PLAYBOOKS / "hardware-upgrade.yml", "--to", "plan.json"], 0),
        (["apply", "plan.json"], 0),
    ):
        done = outside(*arguments, "-i", inventory, env=env, umask=umask)
        assert done.returncode == code, done.stderr.decode()
    written = {name: found for name, found in modes(tmp_path).items() if name not in before}
    assert {"plan.json", "trusted/lab.pem"} <= set(written)
    wrong = {n: f"{mode:03o}" for n, (is_dir, mode) in written.items() if mode != (0o700 if is_dir else 0o600)}
    assert not wrong


def test_a_plan_is_not_written_through_a_link(lab, inventory_of, tool, tmp_path):
    target, link = tmp_path / "target", tmp_path / "plan.json"
    target.write_text("somebody else's")
    link.symlink_to(target)
    assert tool("plan", PLAYBOOKS / "hardware-upgrade.yml", "-i", inventory_of(lab), "--to", link) == 64
    assert target.read_text() == "somebody else's"
    assert link.is_symlink()


def test_the_callers_umask_and_streams_come_back(tool):
    import sys

    before, out = os.umask(0o027), sys.stdout
    try:
        tool("mig", "layouts", "a100-40gb")
        assert os.umask(0o027) == 0o027
        assert sys.stdout is out
    finally:
        os.umask(before)


def test_a_crash_leaves_no_memory_image(tool):
    tool("mig", "layouts", "a100-40gb")
    assert resource.getrlimit(resource.RLIMIT_CORE)[0] == 0
