"""What `show` cannot state is said in a comment; the rest of the host is there."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.lab


def test_graphics_that_wait_for_a_restart_are_left_out_and_that_is_said(cli, soap):
    manager = soap.host("esx01").configManager.graphicsManager
    config = manager.graphicsConfig
    config.hostDefaultGraphicsType = "sharedDirect"
    for device in config.deviceType:
        device.graphicsType = "sharedDirect"
    manager.UpdateGraphicsConfig(config)
    assert cli("show", "esx01.lab.local", "--start-ssh") == 0
    (said,) = [line for line in whole_lines(cli.out) if line.startswith("# esx01.lab.local: graphics ")]
    assert said.count("(configured: shared_direct)") == 2
    assert {"0000:3b:00.0", "0000:86:00.0"} <= set(said.split())
    assert "graphics:" not in cli.out
    assert "  mig: {" in cli.out
    assert cli("show", "esx02.lab.local", "--start-ssh") == 0
    assert "# esx02.lab.local" not in cli.out


def whole_lines(shown):
    """Comments are wrapped."""
    return shown.replace("\n#   ", " ").splitlines()


def test_a_part_of_the_gpu_hosts_is_not_called_the_gpu_hosts(cli):
    """Of the others nothing was read: they may have GPUs, too."""
    assert cli("show", "esx01.lab.local,esx02.lab.local", "--kind", "graphics") == 0, cli.err
    assert "GPU hosts" not in cli.out
    assert "- name: 2 hosts of cluster gpu-a" in cli.out
