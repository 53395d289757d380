"""`trust`: what is shown, what is asked, what is written, and that nobody logs in to what is not trusted yet."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import pty
import ssl
import stat
import subprocess
import sys
import threading

import paramiko
import pytest
from support.gates import LONG
from support.printed import judge

from vsphere_ai.connect.secure_shell.hostkeys import HostKeys, fingerprint
from vsphere_ai.connect.secure_shell.trusted import keep_certificate, keep_host_key
from vsphere_ai.errors import Denied

ONE, TWO = paramiko.ECDSAKey.generate(), paramiko.ECDSAKey.generate()
RSA = paramiko.RSAKey.generate(2048)
ESX01, ESX02 = "esx01.lab.local", "esx02.lab.local"
NAME = "[127.0.0.1]:2222"


def line(name, key, mark=""):
    return f"{mark}{name} {key.get_name()} {key.get_base64()}\n"


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


class TestKnownHosts:
    def test_a_new_file_is_its_owners_only(self, tmp_path):
        path = tmp_path / "known_hosts"
        keep_host_key(path, NAME, ONE)
        assert path.read_text() == line(NAME, ONE)
        assert mode(path) == 0o600
        HostKeys(path).check("esx01", "127.0.0.1", 2222, ONE)

    def test_the_same_type_is_replaced_and_all_else_is_kept(self, tmp_path):
        path = tmp_path / "known_hosts"
        kept = [
            "# mine, by hand\n",
            line(NAME, RSA),
            line("[127.0.0.1]:2223", TWO),
            line(NAME, TWO, "@cert-authority "),
            "broken line\n",
            "\n",
        ]
        path.write_text("".join([*kept, line(NAME, TWO)]))
        path.chmod(0o644)
        keep_host_key(path, NAME, ONE)
        assert path.read_text() == "".join([*kept, line(NAME, ONE)])
        assert mode(path) == 0o600

    def test_another_name_in_the_line_keeps_its_key(self, tmp_path):
        path = tmp_path / "known_hosts"
        path.write_text(line(f"esx09,{NAME},10.0.0.9", TWO))
        keep_host_key(path, NAME, ONE)
        assert path.read_text() == line("esx09,10.0.0.9", TWO) + line(NAME, ONE)

    def test_a_hashed_line_is_found(self, tmp_path):
        path = tmp_path / "known_hosts"
        other = line(paramiko.HostKeys.hash_host("esx09"), TWO)
        path.write_text(line(paramiko.HostKeys.hash_host(NAME), TWO) + other)
        keep_host_key(path, NAME, ONE)
        assert path.read_text() == other + line(NAME, ONE)

    def test_a_file_without_a_last_newline(self, tmp_path):
        path = tmp_path / "known_hosts"
        path.write_text(line("esx09", TWO).rstrip("\n"))
        keep_host_key(path, NAME, ONE)
        assert path.read_text() == line("esx09", TWO) + line(NAME, ONE)

    def test_a_link_is_not_followed(self, tmp_path):
        real, path = tmp_path / "real", tmp_path / "known_hosts"
        real.write_text("mine\n")
        path.symlink_to(real)
        with pytest.raises(Denied, match="symbolic link"):
            keep_host_key(path, NAME, ONE)
        assert real.read_text() == "mine\n"
        assert path.is_symlink()

    def test_a_failed_write_leaves_the_old_file(self, tmp_path, monkeypatch):
        path = tmp_path / "known_hosts"
        keep_host_key(path, NAME, ONE)

        def full(_):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space"):
            keep_host_key(path, NAME, TWO)
        assert path.read_text() == line(NAME, ONE)
        assert [p.name for p in tmp_path.iterdir()] == ["known_hosts"]

    def test_nobodys_line_is_lost_when_several_write(self, tmp_path):
        path = tmp_path / "known_hosts"
        names = [f"esx{n:02d}" for n in range(16)]
        threads = [threading.Thread(target=keep_host_key, args=(path, n, ONE)) for n in names]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        assert sorted(path.read_text().splitlines(keepends=True)) == [line(n, ONE) for n in names]

    def test_a_certificate_file(self, tmp_path):
        der = b"\x30\x03\x02\x01\x01"
        path = tmp_path / "trusted" / "prod.pem"
        keep_certificate(path, der)
        keep_certificate(path, der)
        assert ssl.PEM_cert_to_DER_cert(path.read_text()) == der
        assert (mode(path), mode(path.parent)) == (0o600, 0o700)


def attempts(lab):
    farm = lab.get("/lab/farm")
    return farm["logins"] + farm["refused_logins"] + sum(h["ssh"]["login_attempts"] for h in farm["hosts"])


def shown_by(lab):
    pem = ssl.get_server_certificate(("127.0.0.1", lab.port))
    return hashlib.sha256(ssl.PEM_cert_to_DER_cert(pem)).hexdigest()


def key_of(lab, name):
    """The SHA-256 of a host's key, from the file the lab wrote, without our own code."""
    where = {h["name"]: h["ssh"]["address"].partition(":")[2] for h in lab.get("/lab/farm")["hosts"]}[name]
    for each in (lab.directory / "known_hosts").read_text().splitlines():
        host, _, key = each.split()[:3]
        if host == f"[127.0.0.1]:{where}":
            return "SHA256:" + base64.b64encode(hashlib.sha256(base64.b64decode(key)).digest()).decode().rstrip("=")
    raise AssertionError(name)


@pytest.mark.lab
class TestVCenter:
    def test_what_the_inventory_trusts_is_said_and_nothing_is_asked(self, lab, tool, inventory_of):
        assert tool("trust", "vcenter", "-i", inventory_of(lab)) == 0
        assert "so far       trusted, by" in tool.out
        assert "Nothing to do." in tool.out
        pinned = inventory_of(lab, tls={"fingerprint": shown_by(lab)})
        assert tool("trust", "vcenter", "lab", "-i", pinned) == 0
        assert "trusted, by the pinned fingerprint" in tool.out
        assert attempts(lab) == 0

    def test_an_unknown_certificate_is_shown_and_without_a_terminal_not_trusted(self, lab, tool, inventory_of):
        assert tool("trust", "vcenter", "-i", inventory_of(lab, tls={})) == 64
        colons = ":".join(shown_by(lab)[i : i + 2] for i in range(0, 64, 2)).upper()
        assert f"SHA-256      {colons}" in tool.out
        assert "names        localhost, 127.0.0.1, ::1" in tool.out
        assert "so far       not trusted" in tool.out
        assert "no terminal" in tool.err
        assert attempts(lab) == 0

    def test_a_compared_fingerprint_is_stored_and_works(self, lab, tool, inventory_of, tmp_path):
        inventory = inventory_of(lab, tls={})
        given = ("--fingerprint", shown_by(lab).upper(), "--yes", "--write")
        assert tool("trust", "vcenter", "-i", inventory, *given) == 0, tool.err
        path = tmp_path / "trusted" / "lab.pem"
        assert "tls: {ca_file: trusted/lab.pem}" in tool.out
        assert mode(path) == 0o600
        assert attempts(lab) == 0
        trusting = inventory_of(lab, tls={"ca_file": "trusted/lab.pem"})
        assert tool("show", "infra-01", "-i", trusting) == 0, tool.err

    def test_the_line_for_the_inventory_works(self, lab, tool, inventory_of):
        assert tool("trust", "vcenter", "-i", inventory_of(lab, tls={}), "--fingerprint", shown_by(lab), "--yes") == 0
        pin = tool.out.partition('fingerprint: "')[2].partition('"')[0]
        assert tool("show", "infra-01", "-i", inventory_of(lab, tls={"fingerprint": pin})) == 0, tool.err

    def test_a_changed_certificate_is_called_that(self, lab, tool, inventory_of):
        assert tool("trust", "vcenter", "-i", inventory_of(lab, tls={"fingerprint": "ab" * 32})) == 64
        assert "CHANGED: the inventory pins AB:AB:" in tool.out

    def test_another_fingerprint_than_expected_is_denied(self, lab, tool, inventory_of, tmp_path):
        given = ("--fingerprint", "00" * 32, "--yes", "--write")
        assert tool("trust", "vcenter", "-i", inventory_of(lab, tls={}), *given) == 4
        assert "not the given fingerprint" in tool.err
        assert not (tmp_path / "trusted").exists()

    def test_yes_alone_trusts_nobody(self, lab, tool, inventory_of):
        for what in (("vcenter",), ("host", ESX01)):
            assert tool("trust", *what, "-i", inventory_of(lab, tls={}), "--yes") == 64
            assert "--yes without --fingerprint" in tool.err

    def test_a_document_has_the_fingerprint_and_the_line_that_trusts_it(self, lab, tool, inventory_of):
        words = (
            "trust",
            "vcenter",
            "-i",
            inventory_of(lab, tls={}),
            "--fingerprint",
            shown_by(lab),
            "--yes",
            "-o",
            "json",
        )
        assert tool(*words) == 0, tool.err
        judge([str(word) for word in words], tool.out)
        document = json.loads(tool.out)
        assert document["sha256"].replace(":", "").casefold() == shown_by(lab)
        assert (document["trusted"], document["confirmed"], document["file"]) == (False, True, None)
        assert document["sha256"] in document["inventory_line"]
        assert tool("trust", "vcenter", "-i", inventory_of(lab), "-o", "json") == 0
        known = json.loads(tool.out)
        assert (known["trusted"], known["confirmed"], known["inventory_line"]) == (True, None, "")


@pytest.mark.lab
class TestHost:
    def test_known_hosts_are_said_to_be(self, lab, tool, inventory_of):
        before = (lab.directory / "known_hosts").read_bytes()
        assert tool("trust", "host", "esx[01:02].lab.local", "-i", inventory_of(lab)) == 0
        assert [each.split()[-1] for each in tool.out.splitlines()[:4:2]] == ["known", "known"]
        assert key_of(lab, ESX01) in tool.out
        assert (lab.directory / "known_hosts").read_bytes() == before
        assert attempts(lab) == 0

    def test_a_new_host_is_stored_after_comparing_and_then_works(self, lab, tool, inventory_of, tmp_path):
        inventory = inventory_of(lab, known_hosts="keys")
        given = [part for name in (ESX01, ESX02) for part in ("--fingerprint", key_of(lab, name))]
        assert tool("trust", "host", f"{ESX01},{ESX02}", "-i", inventory, *given, "--yes") == 0, tool.err
        assert attempts(lab) == 0
        assert "2 of 2 stored" in tool.out
        path = tmp_path / "keys"
        assert (mode(path), len(path.read_text().splitlines())) == (0o600, 2)
        assert tool("show", ESX01, "-i", inventory) == 0
        assert "mig:" in tool.out

    def test_a_key_that_is_none_of_the_given_is_denied(self, lab, tool, inventory_of, tmp_path):
        given = ("--fingerprint", key_of(lab, ESX01), "--yes")
        assert tool("trust", "host", "gpu_hosts", "-i", inventory_of(lab, known_hosts="keys"), *given) == 4
        assert ESX02 in tool.err
        assert not (tmp_path / "keys").exists()

    def test_a_changed_key_is_called_that_and_replaced(self, lab, tool, inventory_of, tmp_path):
        where = next(h for h in lab.get("/lab/farm")["hosts"] if h["name"] == ESX01)["ssh"]["address"]
        port = where.partition(":")[2]
        stranger = paramiko.Ed25519Key.from_type_string("ssh-ed25519", ed25519())
        (tmp_path / "keys").write_text(line(f"[127.0.0.1]:{port}", stranger) + line(f"[127.0.0.1]:{port}", RSA))
        inventory = inventory_of(lab, known_hosts="keys")
        assert tool("trust", "host", ESX01, "-i", inventory) == 64
        assert "CHANGED, it was SHA256:" in tool.out
        assert tool("trust", "host", ESX01, "-i", inventory, "--fingerprint", key_of(lab, ESX01), "--yes") == 0
        kept = (tmp_path / "keys").read_text()
        assert stranger.get_base64() not in kept
        assert RSA.get_base64() in kept
        assert tool("show", ESX01, "-i", inventory) == 0

    def test_a_document_says_what_each_host_showed_and_what_was_stored(self, lab, tool, inventory_of, tmp_path):
        inventory = inventory_of(lab, known_hosts="keys")
        given = ("--fingerprint", key_of(lab, ESX01), "--yes", "-o", "json")
        words = ("trust", "host", f"{ESX01},esx-odd.lab.local", "-i", inventory, *given)
        assert tool(*words) == 5
        judge([str(word) for word in words], tool.out)
        document = json.loads(tool.out)
        assert document["known_hosts"] == str(tmp_path / "keys")
        one, odd = document["keys"]
        assert (one["name"], one["verdict"], one["stored"]) == (ESX01, "new", True)
        assert one["fingerprint"] == key_of(lab, ESX01)
        assert (odd["verdict"], odd["fingerprint"], odd["stored"]) == ("absent", None, False)
        assert "nothing listens" in odd["error"]
        assert f"{ESX01}: new" in tool.err
        assert tool("trust", "host", ESX01, "-i", inventory, "-o", "name") == 0
        assert tool.out == f"{ESX01}\n"

    def test_a_revoked_key_is_never_stored(self, lab, tool, inventory_of, tmp_path):
        text = (lab.directory / "known_hosts").read_text()
        (tmp_path / "keys").write_text("".join(f"@revoked {each}\n" for each in text.splitlines()))
        inventory = inventory_of(lab, known_hosts="keys")
        assert tool("trust", "host", ESX01, "-i", inventory, "--fingerprint", key_of(lab, ESX01), "--yes") == 4
        assert "REVOKED" in tool.out

    def test_a_host_that_is_not_there_is_named_and_the_others_are_stored(self, lab, tool, inventory_of):
        given = ("--fingerprint", key_of(lab, ESX01), "--yes")
        code = tool("trust", "host", f"{ESX01},esx-odd.lab.local", "-i", inventory_of(lab, known_hosts="k"), *given)
        assert code == 5
        assert "esx-odd.lab.local  not seen: nothing listens" in tool.out
        assert "1 of 2 stored" in tool.out

    def test_for_a_glob_a_trusted_vcenter_is_asked(self, lab, tool, inventory_of):
        assert tool("trust", "host", "esx0[12]*", "-i", inventory_of(lab)) == 0, tool.err
        assert [each.split()[0] for each in tool.out.splitlines()[:4:2]] == [f"{ESX01}:", f"{ESX02}:"]
        farm = lab.get("/lab/farm")
        assert (farm["logins"], sum(h["ssh"]["login_attempts"] for h in farm["hosts"])) == (1, 0)
        assert tool("trust", "host", "esx0[12]*", "-i", inventory_of(lab, tls={})) == 4

    def test_what_cannot_be_meant_is_refused(self, lab, tool, inventory_of):
        assert tool("trust", "host", "esx[03:01]", "-i", inventory_of(lab)) == 64
        assert tool("trust", "host", "!esx01", "-i", inventory_of(lab)) == 64

    def test_only_yes_is_a_yes(self, lab, inventory_of, tmp_path):
        inventory = inventory_of(lab, known_hosts="keys")
        for answer, stored in (("y", False), ("", False), ("yes", True)):
            assert answering(answer, "trust", "host", ESX01, "-i", inventory)[1] == (0 if stored else 1)
            assert (tmp_path / "keys").exists() is stored


def answering(answer, *arguments):
    """Run the command on a terminal of its own and give one answer; return what was shown and the exit code."""
    main, sub = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "vsphere_ai", *map(str, arguments)], stdin=sub, stdout=sub, stderr=sub, close_fds=True
    )
    os.close(sub)
    seen = b""
    while b"to confirm" not in seen:
        seen += os.read(main, 4096)
    os.write(main, f"{answer}\n".encode())
    code = process.wait(LONG)
    os.close(main)
    return seen.decode(), code


def ed25519():
    """The wire form of a fresh ed25519 public key."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    raw = Ed25519PrivateKey.generate().public_key().public_bytes_raw()
    return b"\0\0\0\x0bssh-ed25519\0\0\0\x20" + raw


def test_fingerprints_are_those_of_ssh_keygen(tmp_path):
    assert fingerprint(ONE) == "SHA256:" + base64.b64encode(hashlib.sha256(ONE.asbytes()).digest()).decode().rstrip("=")
