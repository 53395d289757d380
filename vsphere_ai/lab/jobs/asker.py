"""Program that stands in a guest's folder of programs for one of the model: it asks the lab, and prints the answer.

Its arguments are a file with the lab's address and the guest's token, and a command, such as ``nvidia-smi -L``.
"""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Sequence

UNREACHABLE = 255


def main(path: str, command: Sequence[str]) -> int:
    """Ask, print, and return the exit code of the command."""
    with open(path) as file:
        place = json.load(file)
    try:
        with socket.create_connection((place["address"], place["port"]), timeout=30) as sock:
            sock.settimeout(None)  # a program that a defect lets hang, hangs
            sock.sendall(json.dumps({"token": place["token"], "argv": list(command)}).encode() + b"\n")
            with sock.makefile("rb") as answer:
                result = json.loads(answer.read())
    except (OSError, ValueError) as fault:
        sys.stderr.write(f"{command[0]}: the lab does not answer: {fault}\n")
        return UNREACHABLE
    sys.stdout.write(result["stdout"])
    sys.stderr.write(result["stderr"])
    return int(result["status"])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
