"""Public SSH keys: what OpenSSH takes is read; what it does not take is refused, and never repeated."""

from __future__ import annotations

import base64
import subprocess

import pytest
from support.gates import LONG
from support.programs import needs_program

from vsphere_ai.guests.ssh_key import TYPES, public_key


def line(kind, *fields, comment="ops@example.com"):
    raw = b"".join(len(each).to_bytes(4, "big") + each for each in (kind.encode(), *fields))
    return f"{kind} {base64.b64encode(raw).decode()} {comment}".strip()


ED25519 = line("ssh-ed25519", b"k" * 32)


def test_type_key_and_comment_are_read():
    found = public_key(line("ssh-ed25519", b"k" * 32, comment="Ops Team, Berlin"))
    assert (found.type, found.comment) == ("ssh-ed25519", "Ops Team, Berlin")
    assert found.key.endswith(b"k" * 32)
    assert public_key(line("ssh-ed25519", b"k" * 32, comment="") + "\n").comment == ""
    assert public_key(line("ssh-rsa", b"\1\0\1", b"\0" + b"\xff" * 256)).type == "ssh-rsa"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hunter2",
        "ssh-ed25519",
        "ssh-ed25519 ####",
        "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEA\n-----END OPENSSH PRIVATE KEY-----",
        ED25519 + "\n" + ED25519,
        ED25519.replace("ssh-ed25519 ", "ssh-rsa ", 1),
        ED25519.replace("ssh-ed25519 ", "ssh-dss ", 1),
        line("ssh-dss", b"p", b"q"),
        line("ssh-ed25519", b"k" * 31),
        line("ssh-ed25519"),
        line("ssh-rsa", b"\1\0\1", b"\x7f" + b"\xff" * 127),
        "ssh-ed25519 " + ED25519.split()[1][:-8] + " cut",
        'command="reboot" ' + ED25519,
        f"{ED25519}\x1b[2J",
        f"{ED25519}\x85",
        f"{ED25519}\u202e",
    ],
)
def test_what_is_no_public_key_is_refused_and_not_repeated(text):
    with pytest.raises(ValueError, match="\n") as caught:
        public_key(text)
    for word in text.split():
        assert len(word) < 7 or word in TYPES or word in ("PRIVATE", "OPENSSH") or word not in str(caught.value)


@needs_program("ssh-keygen")
@pytest.mark.parametrize("kind", ["ed25519", "rsa", "ecdsa"])
def test_keys_of_openssh_are_taken(tmp_path, kind):
    path = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", kind, "-N", "", "-C", "a comment", "-f", path], check=True, timeout=LONG)
    assert public_key(path.with_suffix(".pub").read_text("utf-8")).comment == "a comment"
    with pytest.raises(ValueError, match="private key"):
        public_key(path.read_text("utf-8"))
