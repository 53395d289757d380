"""A lab whose passwords are given: ``canary_lab.py FOLDER …``, with a file `canaries` (two lines) in FOLDER.

Its hosts also let the public key in that is in FOLDER/key.pub.
"""

import sys
from pathlib import Path

from vsphere_ai.lab.front import control
from vsphere_ai.lab.front import main as lab
from vsphere_ai.lab.sshd import SshServer

real = control.secrets.token_urlsafe
given = iter((Path(sys.argv[1]) / "canaries").read_text(encoding="utf-8").splitlines())


class Secrets:
    """`secrets`, with the two passwords first."""

    @staticmethod
    def token_urlsafe(size: int) -> str:
        return next(given, "") or real(size)


control.secrets = Secrets
begin = SshServer.__init__


def with_key(self: SshServer, *args: object, **more: object) -> None:
    """Begin, and let the key in."""
    begin(self, *args, **more)  # type: ignore[arg-type]
    self.authorized_keys.add((Path(sys.argv[1]) / "key.pub").read_text(encoding="utf-8").split()[1])


SshServer.__init__ = with_key  # type: ignore[method-assign]
sys.exit(lab.main(["--directory", sys.argv[1], *sys.argv[2:]]))
