"""A run that wants a vCenter's locks, as a process of its own: ``contender.py MODE EVERY`` obeys lines on its input.

``go NAME`` tries to get them, ``release`` gives them back; each is answered with a line of JSON. CONTENDER_MACHINE is
the name of the machine it claims to be on, CONTENDER_DIES_AT the number of the folder it dies after creating.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from contextlib import ExitStack
from pathlib import Path

from vsphere_ai.app.estate.scope import EstateRequest
from vsphere_ai.app.estate.session import session_of
from vsphere_ai.connect import vcenter_lock
from vsphere_ai.errors import Locked
from vsphere_ai.language.inventories.inventory import load_inventory
from vsphere_ai.runs import locks

INVENTORY = Path(__file__).parents[2] / "inventories" / "lab.yml"


def say(**answer):
    print(json.dumps(answer), flush=True)


def die_at(number):
    create, made = vcenter_lock._create, []

    def count(vcenter, parent, name):
        ref = create(vcenter, parent, name)
        made.append(ref)
        if len(made) == number:
            os._exit(9)
        return ref

    vcenter_lock._create = count


def main(mode, every):
    machine = os.environ.get("CONTENDER_MACHINE")
    if machine:
        socket.gethostname = lambda: machine
    die_at(int(os.environ.get("CONTENDER_DIES_AT", "0")))
    with session_of(load_inventory(INVENTORY), None, EstateRequest()) as session, ExitStack() as stack:
        vcenter = session.connection.vcenter
        say(ready=os.getpid())
        for line in sys.stdin:
            word, _, name = line.strip().partition(" ")
            started = time.monotonic()
            try:
                if word == "go":
                    lost = lambda why: say(lost=why)  # noqa: E731
                    stack.enter_context(locks.hold(vcenter, name, mode=mode, every=every, lost=lost)).respect()
                    say(won=True, seconds=time.monotonic() - started)
                else:
                    stack.close()
                    say(released=True, seconds=time.monotonic() - started)
            except Locked as error:
                stack.close()
                say(won=False, locked=error.message, code=error.exit_code, seconds=time.monotonic() - started)


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]))
