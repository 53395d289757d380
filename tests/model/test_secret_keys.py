"""Keys of secrets: every one of the product is masked in an excerpt, and no other key or documented line is."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from vsphere_ai.errors import Mark
from vsphere_ai.language.inventories import inventory
from vsphere_ai.language.yaml_files.document import excerpt
from vsphere_ai.language.yaml_files.variable_values import unfit
from vsphere_ai.model.names.secret_keys import has_secret_word, is_secret_key
from vsphere_ai.resources import kinds
from vsphere_ai.training.job import TrainingJob

ROOT = Path(__file__).parents[2]


def models(annotation, found):
    """Collect the models within a type, and those within their fields."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel) and annotation not in found:
        found.add(annotation)
        for field in annotation.model_fields.values():
            models(field.annotation, found)
    for inner in get_args(annotation):
        models(inner, found)
    return found


def of_files():
    found = models(TrainingJob, set())
    for kind in kinds().values():
        models(kind, found)
    for cls in vars(inventory).values():
        models(cls, found)
    return found


def validators(field: FieldInfo):
    """Names of the functions that a field's values pass, also those of a part of its type."""
    metadata = [*field.metadata]
    for inner in get_args(field.annotation):
        metadata += getattr(inner, "__metadata__", ())
    return {getattr(getattr(each, "func", None), "__name__", "") for each in metadata}


SECRET = {"_reference", "_secret", "_webhook"}
"""Validators of what is a secret: a reference to one, or a URL whose path lets anybody who knows it post."""
FIELDS = {
    (name, not SECRET.isdisjoint(validators(field))) for m in of_files() for name, field in m.model_fields.items()
}
REFERENCES = sorted(name for name, is_reference in FIELDS if is_reference)
OTHERS = sorted({name for name, is_reference in FIELDS if not is_reference} | {*kinds()})


def shown(line):
    return excerpt(line, Mark("a.yml", 1, 1)).split("\n")[0].partition("| ")[2]


def test_the_fields_that_name_secrets_are_masked():
    assert {"password", "key_passphrase"} <= set(REFERENCES)
    for name in REFERENCES:
        assert shown(f"{name}: hunter2") == f"{name}: ***"


def test_no_other_field_of_a_file_is():
    assert len(OTHERS) > 150
    assert [name for name in OTHERS if "***" in shown(f"{name}: hunter2")] == []


@pytest.mark.parametrize("page", sorted(ROOT.glob("docs/**/*.md")) + sorted(ROOT.glob("playbooks/**/*.yml")), ids=str)
def test_no_documented_line_is_masked_but_one_that_names_a_secret(page):
    text = page.read_text("utf-8")
    blocks = re.findall(r"```ya?ml\n(.*?)```", text, re.DOTALL) if page.suffix == ".md" else [text]
    for block in blocks:
        for number, line in enumerate(block.splitlines(), 1):
            masked = excerpt(block, Mark("a.yml", number, len(line) + 1))
            if "***" in masked and "***" not in line:
                assert any(name in line for name in (*REFERENCES, "token", "secret")) or "@" in line, line


@pytest.mark.parametrize(
    "key",
    [
        "password", "Password", "ROOT_PASSWORD", "rootPassword", "rootpassword", "root-password", "passwordFile",
        "passwrod", "pasword", "apssword", "passw0rd", "psswd", "passwort", "passphrse", "key_passphrase", "passwd",
        "hashed_passwd", "pw", "pwd", "pw2", "pass", "cred", "credentials", "clientSecret", "client_secrets", "token",
        "apiToken", "api_key", "apiKey", "private-key", "access_key",
    ],
)  # fmt: skip
def test_keys_of_secrets(key):
    assert is_secret_key(key)
    assert "hunter2" not in shown(f"{key.replace('-', '_')}: hunter2")


@pytest.mark.parametrize(
    "key",
    ["passthrough", "pci_passthrough", "passthru", "passed", "passive", "tokenizer", "max_tokens", "switches",
     "swap_disk_gb", "secretary", "private_network", "compass", "bypass_checks", "key", "keys", "pad", "pwm"],
)  # fmt: skip
def test_keys_of_nothing_secret(key):
    assert not is_secret_key(key)
    assert not has_secret_word(key)


def test_a_variable_is_refused_by_its_words_and_not_for_a_misspelling():
    assert unfit("vm_password", "hunter2") is not None
    assert unfit("passport", "hunter2") is None
    assert unfit("tokenizer", "llama") is None
