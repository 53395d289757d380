"""The journal of a run that could not be begun."""

from __future__ import annotations

import pytest

from vsphere_ai import journal
from vsphere_ai.errors import Storage


@pytest.mark.parametrize("where", ["TABLE", "seal_values"])
def test_a_journal_that_could_not_be_begun_leaves_nothing(tmp_path, monkeypatch, where):
    monkeypatch.setenv("VSPHERE_AI_STATE_DIR", str(tmp_path))
    journal.create({"mode": "apply"})
    (kept,) = journal.runs_dir().glob("*.db")

    def full(*_given):
        raise journal.sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(journal.seals, where, "create nothing" if where == "TABLE" else full)
    with pytest.raises(Storage, match=r"syntax error|disk is full") as caught:
        journal.create({"mode": "apply"})
    assert caught.value.remedy == "nothing was changed"
    assert {path.name.partition(".")[0] for path in journal.runs_dir().iterdir()} == {kept.stem}
