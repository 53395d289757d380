"""A lab whose passwords are given: ``canary_lab.py FOLDER …``, with a file `canaries` (two lines) in FOLDER."""

import sys
from pathlib import Path

from vsphere_ai.lab import main as lab

real = lab.secrets.token_urlsafe
given = iter((Path(sys.argv[1]) / "canaries").read_text(encoding="utf-8").splitlines())


class Secrets:
    """`secrets`, with the two passwords first."""

    @staticmethod
    def token_urlsafe(size: int) -> str:
        return next(given, "") or real(size)


lab.secrets = Secrets
sys.exit(lab.main(["--directory", sys.argv[1], *sys.argv[2:]]))
