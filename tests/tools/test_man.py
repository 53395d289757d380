"""Manual pages: one per command, roff that groff takes without a warning, and every option in its text."""

from __future__ import annotations

import os
import re
import subprocess

import click
import pytest
from support.programs import needs_program

from tools.docgen import man
from vsphere_ai.cli.main import command

PAGES = man.pages()


def leaves(context):
    group = context.command
    names = group.list_commands(context) if isinstance(group, click.Group) else []
    for name in names:
        below = click.Context(group.get_command(context, name), info_name=name, parent=context)
        yield below
        yield from leaves(below)


def printed(text):
    done = subprocess.run(
        ["groff", "-man", "-Tascii", "-Kutf8", "-ww", "-P-cbou", "-rLL=90n"], input=text, capture_output=True,
        text=True, env={**os.environ, "LC_ALL": "C.UTF-8"}, check=True,
    )  # fmt: skip
    assert done.stderr == ""
    return done.stdout


def test_every_command_has_a_page_with_its_options():
    found = list(leaves(click.Context(command, info_name="vsphere-ai")))
    assert len(found) > 60
    assert set(PAGES) == {"vsphere-ai.1"} | {f"{c.command_path.replace(' ', '-')}.1" for c in found}
    for context in found:
        page = PAGES[f"{context.command_path.replace(' ', '-')}.1"].replace(r"\-", "-")
        for parameter in context.command.params:
            if isinstance(parameter, click.Option) and not parameter.hidden:
                assert all(word in page for word in parameter.opts), (context.command_path, parameter.opts)


@pytest.mark.parametrize("name", ["vsphere-ai", "vsphere-ai-apply", "vsphere-ai-lab-faults-add", "vsphere-ai-explain"])
@needs_program("groff")
def test_a_page_is_printed_without_a_warning(name):
    text = printed(PAGES[f"{name}.1"])
    assert [
        each for each in ("NAME", "SYNOPSIS", "DESCRIPTION", "EXIT STATUS") if not re.search(f"(?m)^{each}$", text)
    ] == []


@needs_program("groff")
def test_the_page_of_the_program_has_the_exit_codes():
    text = " ".join(printed(PAGES["vsphere-ai.1"]).split())
    assert [code for code, _ in man.exit_codes()] == [
        "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "64", "65", "70", "129", "130", "141", "143"
    ]  # fmt: skip
    assert "another run works on this vCenter" in text


@needs_program("groff")
def test_text_is_no_instruction_to_roff():
    assert printed(
        f".TH X 1\n{man.roff('.SH no heading')}\n.br\n{man.roff(chr(39) + 'tis C:' + chr(92) + 'n --yes')}\n"
    )
    text = printed(".TH X 1\n" + man.roff(".so /etc/passwd\n'tis \\n a --dash"))
    assert ".so /etc/passwd 'tis \\n a --dash" in " ".join(text.split())


def test_the_pages_are_written(tmp_path):
    assert man.main([str(tmp_path / "man")]) == 0
    assert {p.name: p.read_text("utf-8") for p in (tmp_path / "man").iterdir()} == PAGES
    assert not any(re.search(r"\b20\d\d-\d\d-\d\d\b", text.partition("\n")[0]) for text in PAGES.values())
