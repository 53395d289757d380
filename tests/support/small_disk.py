"""A disk that is small enough to be filled, or cannot be written, for processes of the tool."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

KIB = 1024
SMALL = 256 * KIB


class SmallDisk:
    """A file system of 256 KiB at one folder, which only processes of its own mount namespace see."""

    def __init__(self, folder):
        folder.mkdir()
        mount = f"mount -t tmpfs -o size={SMALL},mode=700 small '{folder}' && echo ready && exec sleep 600"
        try:
            self.holder = subprocess.Popen(
                ["unshare", "--mount", "sh", "-c", mount], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
            )
        except FileNotFoundError as error:
            self.impossible(str(error))
        said = self.holder.stdout.readline()
        if said != "ready\n":
            self.close()
            self.impossible(said.strip() or "no mount namespaces")
        self.folder = folder
        self.seen = Path(f"/proc/{self.holder.pid}/root{folder}")
        self.within = ("nsenter", "--target", str(self.holder.pid), "--mount")

    @staticmethod
    def impossible(why):
        """Leave the test out on a user's machine; where everything has to be tested, that is a failure."""
        (pytest.fail if os.environ.get("CI") else pytest.skip)(f"a disk of its own cannot be made here: {why}")

    def fill(self, leave):
        """Leave so many bytes free."""
        (self.seen / "ballast").write_bytes(bytes(self.free() - leave))

    def free(self):
        found = os.statvfs(self.seen)
        return found.f_bavail * found.f_frsize

    def journals(self):
        """Copies of the journals: SQLite follows the way into the other namespace to its end, which is not here."""
        if (self.seen / "runs").exists():
            shutil.copytree(self.seen / "runs", self.folder / "runs")
        return sorted((self.folder / "runs").glob("*.db"))

    def clear(self):
        (self.seen / "ballast").unlink()

    def remount(self, options):
        subprocess.run([*self.within, "mount", "-o", f"remount,{options}", str(self.folder)], check=True)

    def close(self):
        self.holder.kill()
        self.holder.wait()
        self.holder.stdout.close()
