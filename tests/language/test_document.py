from __future__ import annotations

import sys
import time

import pytest

from vsphere_ai.errors import Diagnostic, InputError, Mark
from vsphere_ai.language.inventories.inventory import load_inventory
from vsphere_ai.language.yaml_files.document import FaultCollector, excerpt, load, parse

# What YAML 1.1 readers take for numbers, times, dates and switches; the ids of this trade look like that.
TRICKY = [
    ("0000:04:00.0", "0000:04:00.0"),
    ("0000:00:02.0", "0000:00:02.0"),
    ("52:54:00:12:34:56", "52:54:00:12:34:56"),
    ("12:30", "12:30"),
    ("017", "017"),
    ("no", "no"),
    ("on", "on"),
    ("off", "off"),
    ("20e0", "20e0"),
    ("1_000", "1_000"),
    ("2001-99-99", "2001-99-99"),
    ("9" * 5000, "9" * 5000),
    ("7.0.2", "7.0.2"),
    ("=", "="),
    ("<<", "<<"),
    (".inf", ".inf"),
    ("0b101", "0b101"),
    ("+.5", "+.5"),
]
CORE = [
    ("", None),
    ("~", None),
    ("null", None),
    ("true", True),
    ("False", False),
    ("0", 0),
    ("-19", -19),
    ("0x1F", 31),
    ("0o17", 15),
    ("1.5", 1.5),
    ("-0.25e3", -250.0),
    ('"19"', "19"),
    ("'true'", "true"),
    ("| \n  19", "19\n"),
]


@pytest.mark.parametrize(("written", "read"), TRICKY + CORE)
def test_scalars_mean_what_yaml_12_says(written, read):
    value = parse(f"key: {written}\n", "a.yml").data["key"]
    assert value == read
    assert type(value) is type(read)


def test_keys_are_text_as_written():
    assert parse("0000:3b:00.0: 1\ntrue: 2\n19: 3\n~: 4\n", "a.yml").data == {
        "0000:3b:00.0": 1,
        "true": 2,
        "19": 3,
        "~": 4,
    }


def test_every_value_and_key_knows_its_place():
    document = parse("a:\n  - b: 1\n    long key: [x, ünï, {c: 2}]\n", "a.yml")
    assert document.data == {"a": ({"b": 1, "long key": ("x", "ünï", {"c": 2})},)}
    assert document.mark_of(("a", 0, "b")) == Mark("a.yml", 2, 8)
    assert document.mark_of(("a", 0, "long key", 1)) == Mark("a.yml", 3, 19)
    assert document.mark_of(("a", 0, "long key", 2, "c")) == Mark("a.yml", 3, 28)
    assert document.mark_of_key(("a", 0, "long key")) == Mark("a.yml", 3, 5)
    assert document.mark_of_key(("a", 0)) == Mark("a.yml", 2, 5)
    assert document.mark_of() == document.mark_of_key(()) == Mark("a.yml", 1, 1)
    assert document.mark_of(("a", 7, "nothing")) == Mark("a.yml", 2, 3)


def test_an_alias_stands_for_its_anchor():
    document = parse("a: &x [1, 2]\nb: *x\n", "a.yml")
    assert document.data == {"a": (1, 2), "b": (1, 2)}
    assert document.mark_of(("b", 1)) == Mark("a.yml", 1, 11)


# CPU seconds; measuring coverage costs more than what is measured.
AT_ONCE = 3 if sys.gettrace() else 1
NESTED_ALIASES = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{to}: &{to} [{', '.join([f'*{of}'] * 9)}]\n" for of, to in zip("abcdefgh", "bcdefghi", strict=True)
)
BOMBS = {
    "aliases of aliases": (NESTED_ALIASES, "values"),
    "many aliases": ("a: &a 1\nb: [" + "*a, " * 200 + "]", "aliases"),
    "alias of itself": ("&a [*a]", "inside of what it stands for"),
    "alias as key": ("- &a b\n- {*a : c}", "cannot be a key"),
    "depth of lists": ("[" * 1_000_000, "nested"),
    "depth of mappings": ("{a: " * 500_000, "nested"),
    "depth of dashes": ("- " * 1_000_000, "nested"),
    "many keys": ("".join(f"{n}: 1\n" for n in range(400_000)), "values"),
    "many faults in a large file": ("#\n" * 1_900_000 + "a: 1\n" * 50_000, "twice"),
    "a long line of passwords": ("- a: b: " + "password" * 400_000, "mapping values"),
    "a fault behind a long line of passwords": ("password" * 400_000 + "- a: b: : :", "mapping values"),
    "many faults": ("a: 1\n" * 100_000, "twice"),
    "too large": ("#" * (4 * 1024 * 1024 + 1), "larger than 4 MiB"),
    "nul": ("a: \0", "U+0000"),
    "lone surrogate escape": ('a: "\\ud800"', "invalid Unicode"),
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_bombs_are_refused_at_once(bomb, tmp_path):
    text, said = BOMBS[bomb]
    path = tmp_path / "bomb.yml"
    path.write_text(text)
    start = time.process_time()
    with pytest.raises(InputError, match=said.replace("+", r"\+")):
        load(path)
    assert time.process_time() - start < AT_ONCE


def test_a_large_scalar_is_read_at_once():
    text = "x" * (4 * 1024 * 1024 - 10)
    start = time.process_time()
    assert parse(f"a: {text}", "a.yml").data == {"a": text}
    assert time.process_time() - start < AT_ONCE


def test_a_byte_order_mark_and_windows_line_ends_are_no_fault(tmp_path):
    path = tmp_path / "a.yml"
    path.write_bytes(b"\xef\xbb\xbfa: 1\r\nb: [2]\r\n")
    document = load(path)
    assert document.data == {"a": 1, "b": (2,)}
    assert document.mark_of(("b", 0)) == Mark(str(path), 2, 5)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32", "utf-16-be"])
def test_other_encodings_are_named(encoding, tmp_path):
    path = tmp_path / "a.yml"
    path.write_bytes("a: 1\n".encode(encoding))
    with pytest.raises(InputError, match=r"UTF-16|UTF-32|U\+0000"):
        load(path)


def test_a_path_that_is_no_file_is_refused(tmp_path):
    with pytest.raises(InputError, match="not a file"):
        load(tmp_path)
    with pytest.raises(InputError, match="No such file") as caught:
        load(tmp_path / "none.yml")
    assert caught.value.diagnostics[0].mark == Mark(str(tmp_path / "none.yml"))


def test_faults_that_leave_a_readable_rest_are_collected_when_asked():
    faults = FaultCollector()
    assert parse("a: 1\na: 2\nb: 3\n", "a.yml", faults).data == {"a": 1, "b": 3}
    assert [d.mark.line for d in faults.found] == [2]
    with pytest.raises(InputError, match="given twice"):
        faults.raise_any()


def test_one_fault_is_noted_once_and_there_is_an_end_to_it():
    faults = FaultCollector()
    for number in range(500):
        faults.add(Mark("a.yml", number), "wrong")
        faults.add(Mark("a.yml", number), "wrong")
    assert len(faults.found) == 100
    assert Diagnostic(Mark("a.yml", 0), "wrong") in faults.found


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("password: hunter2", "password: ***"),
        ("{name: a, Password: 'hunter2', port: 1}", "{name: a, Password: ***"),
        ('  "root_password" : hunter2', '  "root_password" : ***'),
        ("password: env:MY_NAME", "password: env:MY_NAME"),
        ("password: env:hunter2", "password: ***"),
        ('password: "file:secrets/p"', 'password: "file:secrets/p"'),
        ("\ta\x1b[2J", " a\ufffd[2J"),
    ],
)
def test_an_excerpt_masks_passwords_and_what_a_terminal_would_obey(line, shown):
    assert excerpt(line, Mark("a.yml", 1, 1)).split("\n")[0] == f"    1 | {shown}"


@pytest.mark.parametrize(
    "value",
    [
        "password:\n      hunter2",
        "? password\n    : hunter2",
        "password: *hunter2",
        "password: !hunter2 x",
        "password: !hunter2",
        'password: "prompt:hunter2"',
        "password: |\n      one\n      hunter2",
        "password: &hunter2 x",
        'password: "one\n      hunter2\\q"',
        "{password:\n hunter2}",
        "pasword: >-\n\n      # no comment\n      hunter2",
        'password: "file:secrets/x\\nhunter2"',
        'password: "keyring:vc/user\\nhunter2"',
        'password: "cmd:pass show x\\nhunter2"',
        'password: "env:VC\\nhunter2"',
        'password: "file:secrets/x\\u2028hunter2"',
        'password: "file:secrets/x\\x85hunter2"',
        'password: "file:secrets/x\n\n      hunter2"',
        "password: 'keyring:vc/user\n\n      hunter2'",
        'password: "file:secrets/x\n      hunter2\\q"',
        "password: file:secrets/x\n      hunter2: [",
        "password: env:VC\n\n      hunter2",
        "password: |\n      file:secrets/x\n      hunter2",
        "password: |\n      cmd:pass show x\n      hunter2",
    ],
)
def test_a_password_is_not_shown_however_it_is_written(tmp_path, value):
    file = tmp_path / "inventory.yml"
    file.write_text(f"vcenters:\n  lab:\n    address: vc\n    username: u\n    {value}\n", encoding="utf-8")
    with pytest.raises(InputError) as caught:
        load_inventory(file)
    shown = "\n".join(f"{d.message}\n{d.help}\n{d.excerpt}" for d in caught.value.diagnostics)
    assert "hunter2" not in shown
    assert shown


def test_what_is_below_or_beside_a_password_is_shown():
    text = "vcenters:\n  lab:\n    password: env:X\n    address: 1\n    ssh:\n      port: x"
    assert excerpt(text, Mark("a.yml", 4, 5)).startswith("    4 |     address: 1")
    assert excerpt(text, Mark("a.yml", 6, 7)).startswith("    6 |       port: x")


def test_an_excerpt_of_a_long_line_is_a_window_around_the_place():
    line = "x" * 3000 + "HERE" + "y" * 3000
    first, second = excerpt(line, Mark("a.yml", 1, 3001), 4).split("\n")
    assert len(first) < 130
    assert first[second.index("^") : second.rindex("^") + 1] == "HERE"


def test_a_password_before_the_place_is_masked_in_a_long_line():
    line = "password: " + "x" * 3000
    assert "x" not in excerpt(line, Mark("a.yml", 1, 3001))


def test_there_is_no_excerpt_of_a_place_that_is_not_in_the_text():
    assert excerpt("a: 1", Mark("a.yml", 9, 1)) == ""
    assert excerpt("a: 1", Mark("a.yml")) == ""
