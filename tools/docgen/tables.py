"""Write the compiled form of every table of facts beside it: `python -m tools.docgen.tables`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from vsphere_ai.model.tables import SUFFIX, compiled

PACKAGE = Path(__file__).parents[2] / "vsphere_ai"
NO_TABLES = ("docs", "examples")
"""Folders of the package whose YAML is for readers: examples."""


def tables() -> Iterator[Path]:
    """Yield the tables of the package."""
    for path in sorted(PACKAGE.rglob("*.yaml")):
        if path.relative_to(PACKAGE).parts[0] not in NO_TABLES:
            yield path


def compiled_form(table: Path) -> Path:
    """Return the file of the compiled form of a table."""
    return table.with_name(f"{table.name}{SUFFIX}")


if __name__ == "__main__":
    for table in tables():
        compiled_form(table).write_text(compiled(table.read_bytes()), encoding="utf-8")
