"""The words of the product: terms of the vSphere, NVIDIA and Terraform manuals; private words stay out.

`python tests/docs/test_words.py [PATH ...]` lists every place with a word to use instead.
"""

from __future__ import annotations

import ast
import re
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = ("vsphere_ai", "tools", "docs", "playbooks", "inventories", "integrations", "README.md", "CONTRIBUTING.md",
         "CHANGELOG.md", "Makefile")  # fmt: skip
SUFFIXES = {".py", ".md", ".yml", ".yaml", ".json", ".svg", ""}

GAP = r"[\s#>*]+"
"""Between the words of a phrase: it may go on in the next line of a comment or a quotation."""
VERB = (
    rf"(?:{GAP}[^\s;:]*[^\s.;:]){{0,3}}{GAP}(?:on|off)\b",  # "turn lockdown mode off"
    rf"(?:{GAP}[^\s;]*[^\s.;]){{1,9}}?{GAP}into\b",  # "turns answers into records"
    rf"{GAP}(?:out|back|false|true)\b",
)
NOUN = r"\b(?:an?|its|their|each|every|next|last|own|whose|take|takes|taking|took)\sturns?\b"
TURN = rf"{NOUN}|(?<!\bin\s)\bturns?\b(?!{'|'.join(VERB)})"
"""The steps of one host in a rollout; neither "in turn" nor the verb."""
BANNED = {
    r"told": "reported, stated, asked",
    r"tells?": "report, show; return whether",
    r"(?:no|some|any)body": "no one; someone else, another user; 'is not changed'",
    r"whoever": "the user who, the process that",
    r"ow(?:e|es|ed|ing)": "pending",
    r"mend(?:s|ed|ing|er)?": "fix, repair, align",
    r"deeds?": "action",
    r"debts?": "pending action",
    r"heirs?": "successor, children",
    r"hush(?:ed|es)?": "status line",
    r"ailments?": "problem",
    r"ill(?!-)": "unhealthy",
    r"crowded": "over budget",
    r"laps(?:e|es|ed|ing)": "expire",
    r"meanwhile": "during the run, since planning",
    # the command is called bench
    (
        r"(?<!make )(?<!/test )(?<!record )(?<!vsphere-ai )(?<!cli[./])(?<!cli[./]train[./])(?<!\")bench"
        r"(?![/:]|[ -](?:parse|nccl|history|rdma|megatron|scale|burn|crossover)\b|"
        r"\.(?:preflight|slower|left|stopped|slow|no-run|passed|crossover)\b)"
    ): "session; benchmark",
    r"hops?": "link",
    r"seat(?:s|ed)?": "assign, assignment, port",
    r"keepers?": "lock renewal",
    r"doubt(?:s|ed|ful)?": "outcome unknown, unresolved",
    rf"as(?:{GAP}(?:it|they|first|was|were|is|are)){{0,3}}{GAP}found": "unchanged, previous state, external change",
    rf"left{GAP}(?:off|alone)": "not changed; left powered off",
    # phrases of earlier screens; what a vendor's manual calls the same thing stands behind each
    rf"observed{GAP}is{GAP}the{GAP}only{GAP}truth": "the live vCenter is the source of truth",
    r"(?-i:NOT CERTAIN)": "WARNINGS",
    rf"switched{GAP}off{GAP}and{GAP}on": "power-cycled",
    rf"read{GAP}back{GAP}and{GAP}found": "verified",
    rf"connected{GAP}with{GAP}a{GAP}newer{GAP}boot": "wait for the reboot to complete",
    rf"reads?{GAP}its{GAP}graphics{GAP}devices": "refresh graphics devices",
    rf"will{GAP}not{GAP}offer": "does not support",
    r"planned then, not now|not planned then": "only in the saved plan, only in the new plan",
    rf"none{GAP}of{GAP}them{GAP}it": "not installed (N checked)",
    rf"no{GAP}objection": "passed",
    rf"a{GAP}guess: no run": "estimate: no history",
    rf"use{GAP}(?:it{GAP})?as{GAP}things{GAP}stand": "with the current layout",
    rf"needs{GAP}a{GAP}look": "attention required",
    r"(?-i:What did not pass)": "Failures and warnings",
    rf"all{GAP}well": "healthy",
    rf"Carry{GAP}this{GAP}out": "Apply",
    r"Only 'yes' is accepted": "Type yes to confirm",
    rf"no{GAP}software{GAP}can{GAP}see": "attestations (manual checks)",
    rf"VMs{GAP}that{GAP}are{GAP}there": "existing VMs",
    rf"what{GAP}was{GAP}run{GAP}here": "runs and their status",
    rf"what{GAP}a{GAP}run{GAP}found": "revert a run",
    rf"once{GAP}of{GAP}many{GAP}alike": "do not group identical targets",
    rf"beyond{GAP}what{GAP}was{GAP}approved": "additional changes",
    rf"not{GAP}seen{GAP}back": "has not returned after reboot",
    rf"no{GAP}obstacle{GAP}to": "ignored",
    rf"two{GAP}witnesses": "guest and host data",
    rf"who{GAP}gets{GAP}in": "authentication",
    rf"crash{GAP}is{GAP}a{GAP}normal": "crash safety",
    rf"who{GAP}may{GAP}import": "modules and dependencies",
    rf"stands?{GAP}against": "blocks; problems of",
    rf"(?:pattern|limit`?){GAP}means{GAP}nothing": "matches no object",
    rf"(?:settings?|is|are|it|everything|all|already|not){GAP}as{GAP}wanted": "in the desired state",
}
WORDS = re.compile("|".join([*(rf"\b(?:{word})\b" for word in BANNED), TURN]), re.IGNORECASE)
CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|_")
QUESTIONS = re.compile(r"(?:What|Which|Whether|How|Where|When|Who|Whose|Why)\b")


@cache
def files() -> tuple[Path, ...]:
    found = []
    for room in ROOMS:
        path = ROOT / room
        found += (
            [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.suffix in SUFFIXES and p.is_file())
        )
    return tuple(p for p in found if "__pycache__" not in p.parts)


def room_of(path: Path) -> str:
    return "/".join(path.relative_to(ROOT).parts[:2])


def words_of(text: str) -> list[tuple[int, str]]:
    """The banned words of a text with their lines; names are split into words first."""
    plain = CAMEL.sub(" ", text)
    return [(plain.count("\n", 0, m.start()) + 1, " ".join(m[0].split())) for m in WORDS.finditer(plain)]


def instead_of(word: str) -> str:
    given = (instead for pattern, instead in BANNED.items() if re.fullmatch(pattern, word, re.I))
    return next(given, "rollout step of a host; round")


def questions_of(text: str) -> list[tuple[int, str]]:
    """The docstring of a module whose first word is no noun."""
    doc = ast.get_docstring(ast.parse(text)) or ""
    first = QUESTIONS.match(doc)
    return [(1, first[0])] if first else []


@cache
def places_in(room: str) -> list[str]:
    """Every place of a room: file, line, what is there, what could be there."""
    found: list[str] = []
    for path in (path for path in files() if room_of(path) == room):
        text, name = path.read_text("utf-8"), path.relative_to(ROOT)
        lines = text.splitlines()
        for line, word in words_of(text):
            found.append(f"{name}:{line}: {word!r}, rather: {instead_of(word)} | {lines[line - 1].strip()}")
        if path.suffix == ".py":
            found += [f"{name}:{line}: the docstring of a module begins with the noun, not with {word!r}"
                      for line, word in questions_of(text)]  # fmt: skip
    return found


def by_room() -> dict[str, list[str]]:
    return {room: places_in(room) for room in sorted({room_of(path) for path in files()})}


@pytest.mark.parametrize("room", sorted({room_of(path) for path in files()}))
def test_words_of_the_field(room):
    found = places_in(room)
    assert not found, f"{len(found)} places:\n" + "\n".join(found)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("told_elsewhere", ["told"]),
        ("class DoubtKeeper", ["Doubt", "Keeper"]),
        ("Nobody owes\nwhat somebody mended", ["Nobody", "owes", "somebody", "mended"]),
        ("a VM is left\n    # alone", ["left # alone"]),
        ("LEFT AS FOUND, as it was found, as_found", ["AS FOUND", "as it was found", "as found"]),
        ("bench; python bench/writes.py; make bench; benchmarks", ["bench"]),
        ("`bench nccl`, vsphere-ai bench, cli/train/bench.py, a bench for nccl", ["bench"]),
        ("the VM is ill, ill-formed, will, I'll", ["ill"]),
        ("shop, hop, IPv6 hops", ["hop", "hops"]),
        ("hosts take turns; a turn ends. It is on", ["take turns", "a turn"]),
        ("before its turn on the host", ["its turn"]),
        ("turn hot-add off while it is off; turns the setting on; in turn; return", []),
        ("Turn a VMware vSphere estate into a GPU farm; `certain` turns false", []),
        ("Turn pydantic's errors into diagnostics", []),
        ("Turns an estate (7.0 U2 and later) into a farm", []),
        ("FIRST_TURNS = 8\nfor turn, weights in enumerate(x): pass", ["TURNS", "turn"]),
        ("indeed, playbook, untold, retell, sheir", []),
    ],
)
def test_words_are_found_and_the_verbs_of_the_field_are_not(text, found):
    assert [word for _, word in words_of(text)] == found


def test_a_word_is_named_with_its_line_and_another_one():
    assert words_of('"""A module."""\n\ndef owed_by(): ...\n') == [(3, "owed")]
    assert all(instead_of(word) for word in ("told", "doubts", "turns", "as it was found"))
    assert questions_of('"""Whether it fits."""') == [(1, "Whether")]
    assert questions_of('"""Whole devices of a host."""') == []
    assert questions_of('"""Order of the steps: what comes first."""') == []


def test_every_room_is_read():
    rooms = {room_of(path) for path in files()}
    assert {"vsphere_ai/cli", "vsphere_ai/lab", "tools/docgen", "docs/kinds", "docs/cli.md", "README.md"} <= rooms


if __name__ == "__main__":
    wanted = [Path(arg).as_posix().rstrip("/") for arg in sys.argv[1:]]
    for place in (place for _, places in sorted(by_room().items()) for place in places):
        if not wanted or place.startswith(tuple(f"{name}{end}" for name in wanted for end in "/:")):
            print(place)
    print(*(f"{len(places):5} {room}" for room, places in sorted(by_room().items()) if places), sep="\n")
