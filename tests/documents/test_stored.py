"""Stored documents: what cannot be read is named with file, line, column and field, and is never taken for empty."""

from __future__ import annotations

import pytest

from vsphere_ai.documents.stored import DamagedDocument, StoredDocument, StoredPart, position, read_stored


class Part(StoredPart):
    number: int


class Whole(StoredDocument):
    names: tuple[str, ...] = ()
    parts: dict[str, Part]


TEXT = b'{"parts":\n  {"a": {"number": 1},\n   "b": {"number": "\xc3\xa4"}}}'


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "f.json:1:1: it is empty: 0 bytes"),
        (b" \n", "f.json:1:1: it is empty: 2 bytes"),
        (b'{"parts"', "f.json:1:8: it is not JSON: EOF while parsing an object"),
        (b"\x00" * 40, "f.json:1:1: it is not JSON: expected value"),
        (b"\xff\xfe{", "f.json:1:1: it is not JSON: expected value"),
        (b"[" * 100_000, "f.json:1:202: it is not JSON: recursion limit exceeded"),
        (b"{}", "f.json:1:1: parts: it is missing"),
        (b"[]", "f.json:1:1: it should be an object"),
        (b"null", "f.json:1:1: it should be an object"),
        (TEXT, "f.json:3:20: parts.b.number: it should be a valid integer"),
        (b'{"names": ["a", 1], "parts": {}}', "f.json:1:17: names[1]: it should be a valid string"),
        (b'{"parts": {"a": {"number": "1"}}}', "f.json:1:28: parts.a.number: it should be a valid integer"),
        (b'{"parts": {}, "q": 1}', "f.json:1:20: q: this version has no such key"),
        (
            b'{"other": 1, "format": 2}',
            "f.json:1:24: format: it was written by another version of vsphere-ai, this one reads format 1",
        ),
    ],
)
def test_what_is_wrong_is_named_with_its_place(content, message):
    with pytest.raises(DamagedDocument) as damaged:
        read_stored(Whole, content, "f.json")
    assert (damaged.value.message, damaged.value.exit_code) == (message, 8)
    assert damaged.value.remedy == Whole.remedy


def test_what_is_written_is_read_back():
    made = Whole(names=("a", "ä\n"), parts={"x": Part(number=3)})
    assert read_stored(Whole, made.as_text().encode(), "f.json") == made
    assert "\n" not in made.as_text()


def test_the_line_of_a_part_of_a_file_counts_from_its_beginning():
    with pytest.raises(DamagedDocument, match=r"f\.json:7:11: parts: it should be an object"):
        read_stored(Whole, b'{"parts": 1}', "f.json", 7)


def test_the_place_of_what_is_not_there_is_that_of_what_should_have_it():
    text = '{"a": [{"b": 1}, "x]}\\"", {"c": {}}]}'
    assert text[position(text, ("a", 2, "c")) :] == "{}}]}"
    assert text[position(text, ("a", 1)) :].startswith('"x]}')
    assert position(text, ("a", 7)) == position(text, ("a",)) == text.index("[")
    assert position(text, ("z", "a")) == 0
