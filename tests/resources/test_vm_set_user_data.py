"""User data in a playbook: keys, text or a file; keys of this tool and misspelt ones are refused where they stand."""

from __future__ import annotations

import pytest

from vsphere_ai.errors import InputError
from vsphere_ai.language.playbooks.playbook import load_playbook
from vsphere_ai.resources import kinds

HEAD = "- vms: t-[01:02]\n  vm_set:\n    name: t\n    source: x\n"
GIVEN = {"packages": ("htop",), "write_files": ({"path": "/etc/a", "content": "b", "permissions": "0644"},)}
KEYS = "packages: [htop]\nwrite_files:\n  - {path: /etc/a, content: b, permissions: 0644}\n"


def indented(text, by):
    return "".join(f"{' ' * by}{line}\n" for line in text.splitlines())


INLINE = "    user_data:\n" + indented(KEYS, 6)
TEXT = "    user_data: |\n" + indented(f"#cloud-config\n{KEYS}", 6)
FILE = "    user_data: guests/gpu.yml\n"
NAMED = "    user_data: {file: guests/gpu.yml}\n"


def load(tmp_path, text, content=KEYS):
    (tmp_path / "guests").mkdir(exist_ok=True)
    (tmp_path / "guests" / "gpu.yml").write_text(f"#cloud-config\n{content}", encoding="utf-8")
    path = tmp_path / "play.yml"
    path.write_text(HEAD + text, encoding="utf-8")
    return load_playbook(path, kinds()).plays[0].states[0].state


def refused(tmp_path, text, content=KEYS):
    with pytest.raises(InputError) as fault:
        load(tmp_path, text, content)
    found = fault.value.diagnostics
    return [(f.mark.file.rpartition("/")[2], f.mark.line, f.mark.column, f.message, f.help) for f in found]


@pytest.mark.parametrize("text", [INLINE, TEXT, FILE, NAMED])
def test_each_form_says_the_same(text, tmp_path):
    state = load(tmp_path, text)
    assert state.user_data.content == GIVEN
    assert str(state.user_data) == "packages, write_files"
    assert '"permissions": "0644"' in state.user_data.text, "a mode stays octal"


OURS = "packages: [htop]\nhostname: gpu\nusers: [{name: eve}]\n"


@pytest.mark.parametrize(
    ("text", "file", "lines"),
    [
        ("    user_data:\n" + indented(OURS, 6), "play.yml", (7, 8)),
        ("    user_data: |\n" + indented(f"#cloud-config\n{OURS}", 6), "play.yml", (8, 9)),
        (FILE, "gpu.yml", (3, 4)),
        (NAMED, "gpu.yml", (3, 4)),
    ],
)
def test_keys_of_this_tool_are_refused_with_their_place(text, file, lines, tmp_path):
    found = refused(tmp_path, text, OURS)
    assert [(f, line) for f, line, *_ in found] == [(file, line) for line in lines]
    assert [message for *_, message, _help in found] == [
        "'hostname' of the user data is set by vsphere-ai",
        "'users' of the user data is set by vsphere-ai",
    ]
    assert [help for *_, help in found] == ["a guest has the name of its VM", "write 'users' of vm_set"]


@pytest.mark.parametrize(
    ("content", "message", "help"),
    [
        ("pakages: [htop]\n", "'pakages' is no key of cloud-config", "did you mean 'packages'?"),
        ("runcmd: reboot\n", "'runcmd' of cloud-config is a list", "write each item after '- '"),
        ("write_files: [{path: etc/a}]\n", "a file of 'write_files' has no absolute path", "add 'path: /...'"),
        (
            "write_files: [{path: /var/lib/vsphere-ai/ready.sh}]\n",
            "/var/lib/vsphere-ai/ready.sh belongs to vsphere-ai, which writes it there",
            "choose another path",
        ),
        ("[a]\n", "user data are a mapping of cloud-config", "write its keys, such as 'packages: [...]'"),
    ],
)
def test_what_cloud_init_would_not_take_is_refused(content, message, help, tmp_path):
    ((file, line, _column, said, way),) = refused(tmp_path, FILE, content)
    assert (file, line, said, way) == ("gpu.yml", 2, message, help)


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("    user_data: |\n      #!/bin/sh\n      reboot\n", 5, "are not cloud-config"),
        ("    user_data: {file: guests/gpu.yml, packages: [a]}\n", 5, "keys beside it"),
        ("    user_data: ../other.yml\n", 5, "is not a file below the folder"),
        ("    user_data: 7\n", 5, "expected"),
    ],
)
def test_what_is_no_user_data_is_refused(text, line, words, tmp_path):
    ((_file, at, _column, said, _help),) = refused(tmp_path, text)
    assert at == line
    assert words in said


def test_a_key_of_a_module_that_is_not_known_is_passed_on(tmp_path):
    state = load(tmp_path, FILE, "my_own_module: {a: 1}\n")
    assert state.user_data.text == '{"my_own_module": {"a": 1}}'
