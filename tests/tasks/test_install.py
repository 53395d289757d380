"""Installing, as the page says it: the program of a wheel alone, then the first steps of that page."""

from __future__ import annotations

import json

import pytest
from integrations.test_package import prefix, wheel
from support.users import User

from vsphere_ai.lab.front import process

__all__ = ["prefix", "wheel"]
pytestmark = pytest.mark.lab


def test_install_and_take_the_first_steps(prefix, tmp_path):
    """No clone, no network, no vCenter: example and editor's schema come out of the wheel."""
    user = User(tmp_path / "user", None, "docs/install.md", program=prefix / "bin" / "vsphere-ai")
    try:
        user.types("vsphere-ai lab up")
        user.types("vsphere-ai examples ai-ready-cluster --to first")
        screen = user.types("vsphere-ai plan first/playbooks/ai-ready-cluster.yml")
        assert "2 hosts reboot" in screen
        assert "train-[01:03]" in screen
        schema = json.loads(user.types("vsphere-ai schema playbook"))
        assert schema["$schema"].startswith("http://json-schema.org/draft-07")
        user.types("vsphere-ai lab down")
    finally:
        process.stop(tmp_path / "user" / "state" / "lab")
