"""A terminal of any size with `vsphere-ai` in it, and the frames of the live view that it draws."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import threading
import time

from support.gates import LONG

FRAME = re.compile(r"\x1b\[\?7l(.*?)\r\x1b\[\?7h", re.DOTALL)


def _own_terminal():
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


class Terminal:
    """`vsphere-ai ARGS` on a pseudo-terminal; `text` is all that it wrote so far."""

    def __init__(self, lab, *arguments, size=(80, 24), **environment):
        self._master, slave = pty.openpty()
        self.resize(*size)
        known = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES", "NO_COLOR", "CI")}
        known |= {"VSPHERE_AI_LAB_DIR": str(lab.directory), "TERM": "xterm-256color", **environment}
        argv = [sys.executable, "-m", "vsphere_ai", *map(str, arguments)]
        self.process = subprocess.Popen(argv, stdin=slave, stdout=slave, stderr=slave, env=known,
                                        start_new_session=True, preexec_fn=_own_terminal)  # fmt: skip
        os.close(slave)
        self._read: list[bytes] = []
        self._reader = threading.Thread(target=self._reading, daemon=True)
        self._reader.start()

    def _reading(self):
        while True:
            try:
                found = os.read(self._master, 65536)
            except OSError:  # the other end is closed
                return
            if not found:
                return
            self._read.append(found)

    @property
    def text(self):
        return b"".join(self._read).decode("utf-8", "replace")

    @property
    def frames(self):
        """The lines of each drawing of the live view."""
        return [found.replace("\r", "").split("\n") for found in FRAME.findall(self.text)]

    def resize(self, columns, lines):
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def type(self, keys):
        os.write(self._master, keys.encode())

    def until(self, true, seconds=LONG):
        """Wait until `true()`; fail with what was written where that does not come."""
        end = time.monotonic() + seconds
        while not true():
            assert time.monotonic() < end, self.text[-3000:]
            time.sleep(0.05)

    def after(self, count, words):
        """Wait for a frame behind the first `count` that has these words; return its lines."""
        self.until(lambda: any(words in "\n".join(frame) for frame in self.frames[count:]))
        return next(frame for frame in self.frames[count:] if words in "\n".join(frame))

    def wait(self, seconds=LONG):
        code = self.process.wait(seconds)
        self._reader.join(5)
        return code

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(LONG)
        self._reader.join(5)
        os.close(self._master)
