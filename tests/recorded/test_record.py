"""The recorder itself: what it keeps can be replayed, and it keeps nothing that holds a secret."""

from __future__ import annotations

import pytest
from recorded import record, scrub
from recorded.cases import CASES, bulk_read, login
from recorded.soapvcr import cassette

pytestmark = pytest.mark.lab


def endpoint(lab):
    return record.endpoint_of(lab.directory / "connection.yml")


def test_readings_of_a_vcenter_are_recorded_and_replayed(lab, tmp_path, elsewhere, capsys, request):
    code = record.main(["--inventory", str(lab.directory / "connection.yml"), "--into", str(tmp_path), "--rename",
                        "train-01=worker-01"])  # fmt: skip
    assert code == 0
    assert capsys.readouterr().out.count(" requests, ") == 2
    assert sorted(p.name for p in tmp_path.iterdir()) == ["bulk_read.yaml", "login.yaml"]
    password = endpoint(lab).password
    assert not any(word in p.read_text("utf-8") for p in tmp_path.iterdir() for word in (password, "train-01"))

    request.getfixturevalue("no_network")
    with cassette("login", folder=tmp_path):
        assert login(elsewhere)["about"].api == "7.0.2.0"
    with cassette("bulk_read", folder=tmp_path):
        assert [v.name for v in bulk_read(elsewhere).vms][-1] == "worker-01"


def test_a_recording_with_a_secret_in_it_is_not_kept(lab, tmp_path, monkeypatch):
    monkeypatch.setattr(scrub, "RULES", ())
    with pytest.raises(record.Leak, match="session key"):
        record.record(CASES[0], endpoint(lab), tmp_path, {})
    assert list(tmp_path.iterdir()) == []


def test_the_farm_is_prepared(lab):
    record.prepare(lab, "- {vms: train-04, hardware: {version: 19}}")
    assert next(v for v in lab.get("/lab/farm")["vms"] if v["name"] == "train-04")["hardware"] == "vmx-19"


def test_bad_arguments(tmp_path, capsys):
    with pytest.raises(SystemExit) as ended:
        record.main(["--rename", "only-one-name"])
    assert ended.value.code == 2
    assert "REAL=OTHER" in capsys.readouterr().err
    assert record.main(["--inventory", str(tmp_path / "none.yml"), "--into", str(tmp_path)]) == 65
    assert "none.yml" in capsys.readouterr().err
