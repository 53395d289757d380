"""docs/guests.md has every rule of the room and no other, and the renderers as the code knows them."""

from __future__ import annotations

import re
from pathlib import Path

from vsphere_ai import guests
from vsphere_ai.guests.image import RENDERERS

ROOT = Path(__file__).parents[2]
RULE = re.compile(r"\b(?:guest|image|customization)\.[a-z0-9-]+")


def rules_of_the_code():
    text = {path.stem: path.read_text("utf-8") for path in Path(guests.__file__).parent.glob("*.py")}
    named = {rule for each in text.values() for rule in re.findall(r'"(guest\.[a-z0-9-]+)"', each)}
    image = re.findall(r'(?:found|unknown)\(\s*"([a-z0-9-]+)"', text["image"])
    prep = re.findall(r'yield "([a-z0-9-]+)"', text["customization"])
    return {*named, *(f"image.{rule}" for rule in image), *(f"customization.{rule}" for rule in prep)}


def test_the_page_has_every_rule_and_no_other():
    page = (ROOT / "docs" / "guests.md").read_text("utf-8")
    shown = {rule for row in page.splitlines() if row.startswith("|") for rule in RULE.findall(row.split("|")[1])}
    assert len(shown) > 30
    assert shown == {rule for rule in rules_of_the_code() if not rule.startswith("guest.guest")} - {
        "guest.toolsVersionStatus2"
    }


def test_the_page_has_the_renderers():
    page = (ROOT / "docs" / "guests.md").read_text("utf-8")
    for name, known in RENDERERS.items():
        assert f"| `{name}` | {'yes' if known.policy_routing else 'no'} | {known.note} |" in page
