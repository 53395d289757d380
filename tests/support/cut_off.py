"""Commands that are killed at a given place, as processes of their own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time

from support import prefork
from support.gates import LONG
from support.places import INVENTORY

ESX1 = "esx01.lab.local"
REBOOTS = ("esxcli system shutdown reboot", "RebootHost_Task")
DIES_BEFORE_ITS_REBOOT = """
import os
from vsphere_ai.cli.main import run
from vsphere_ai.runs.journal import Journal
sending = Journal.sending
Journal.sending = lambda self, target: (sending(self, target), target.kind == "host" and os._exit(9))
run()
"""
"""Notes that the reboot is about to be sent, and dies before the call."""


def reboots(ledger):
    """The hosts that were rebooted, one entry per reboot."""
    return [e["object"] for e in ledger() if e["call"] in REBOOTS]


def killed_in_the_reboot(lab, what, *, command="apply", after=0.3):
    """Apply a playbook or go back before a run, and kill that so long after esx01's reboot was begun."""
    inventory = ["-i", str(INVENTORY)] if command == "apply" else []
    argv = [sys.executable, "-m", "vsphere_ai", command, *inventory, str(what), "--yes", "-v"]
    environment = {**os.environ, "VSPHERE_AI_LAB_DIR": str(lab.directory), "PYTHONUNBUFFERED": "1"}
    process = prefork.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)
    seen = []
    for line in process.stdout:
        seen.append(line)
        if re.search(rf"{ESX1} +\[\d+/\d+\] reboot \(through vCenter\)$", line):
            time.sleep(after)
            process.send_signal(signal.SIGKILL)
            break
    process.stdout.read()
    assert process.wait(LONG) == -signal.SIGKILL, "".join(seen)


def dies(lab, program, *arguments):
    """Run the command line in a Python program that lets it die somewhere; return the exit code."""
    environment = {**os.environ, "VSPHERE_AI_LAB_DIR": str(lab.directory)}
    argv = [sys.executable, "-c", program, *map(str, arguments)]
    return prefork.run(argv, env=environment, timeout=LONG).returncode


def rebooted(soap, since):
    """Wait until esx01 is connected with a boot time after this one."""
    host = soap.host("esx01")
    soap.until(lambda: host.runtime.bootTime > since and host.runtime.connectionState == "connected")
