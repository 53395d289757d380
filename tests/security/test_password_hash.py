"""Hashes of passwords: those of the specification, and what another program makes of them."""

from __future__ import annotations

import subprocess

import pytest
from support.programs import needs_program

from vsphere_ai.security.password_hash import hashed, sha512_crypt

# Ulrich Drepper, "Unix crypt using SHA-256 and SHA-512", test vectors
VECTORS = [
    (
        "saltstring",
        5000,
        "Hello world!",
        "$6$saltstring$svn8UoSVapNtMuq1ukKS4tPQd8iKwSMHWjl/O817G3uBnIFNjnQJuesI68u4OTLiBFdcbYEdFCoEOfaS35inz1",
    ),
    (
        "saltstringsaltstring",
        10000,
        "Hello world!",
        "$6$rounds=10000$saltstringsaltst$OW1/O6BYHV6BcXZu8QVeXbDWra3Oeqh0sbHbbMCVNSnCM/UrjmM0Dp8vOuZeHBy/"
        "YTBmSK6H9qs/y3RnOaw5v.",
    ),
]


@pytest.mark.parametrize(("salt", "rounds", "password", "wanted"), VECTORS)
def test_the_vectors_of_the_specification(salt, rounds, password, wanted):
    assert sha512_crypt(password, salt, rounds) == wanted


@needs_program("openssl")
@pytest.mark.parametrize("password", ["a", "correct horse", "x" * 63, "y" * 64, "z" * 65, "pä$$wörd", "q" * 200])
def test_openssl_makes_the_same(password):
    argv = ["openssl", "passwd", "-6", "-salt", "ab./CD01", "-stdin"]
    made = subprocess.run(argv, input=password + "\n", capture_output=True, text=True, check=True).stdout.strip()
    assert sha512_crypt(password, "ab./CD01") == made


def test_each_hash_has_a_salt_of_its_own_and_can_be_checked():
    one, two = hashed("correct horse"), hashed("correct horse")
    assert one != two
    _, kind, rounds, salt, _ = one.split("$")
    assert (kind, len(salt)) == ("6", 16)
    assert sha512_crypt("correct horse", salt, int(rounds.removeprefix("rounds="))) == one


@pytest.mark.parametrize("wrong", ["", "two\nlines", "a\0b"])
def test_what_no_login_takes_is_refused(wrong):
    with pytest.raises(ValueError, match="one line"):
        hashed(wrong)
