"""Files that a playbook includes: their items in its place, their mistakes in their file, and their limits."""

from __future__ import annotations

import os

import pytest
from language.variables_support import Files, stated

from vsphere_ai.errors import InputError
from vsphere_ai.language.playbooks.desired import desired
from vsphere_ai.language.yaml_files import include
from vsphere_ai.language.yaml_files.yaml import MAX_NODES

VMS = "- vms: {}\n  vgpu: [x]\n"


@pytest.fixture
def files(tmp_path, kinds):
    return Files(tmp_path, kinds)


def test_items_stand_in_the_place_of_the_include(files):
    files.write("parts/a.yml", VMS.format("a") + "- include: deep/b.yml\n- vars: {v: 15}\n")
    files.write("parts/deep/b.yml", "- vms: b\n  hardware: {version: '${v}'}\n- outputs: {o: '${v}'}\n")
    playbook = files.read(VMS.format("first") + "- include: [parts/a.yml]\n  name: parts\n" + VMS.format("last"))
    assert [p.pattern for p in playbook.plays] == ["first", "a", "b", "last"]
    assert stated(playbook, 2) == {"hardware.version": 15}
    assert [p.mark.file.removeprefix(f"{files.folder}/") for p in playbook.plays] == [
        *("play.yml", "parts/a.yml", "parts/deep/b.yml", "play.yml"),
    ]
    assert playbook.outputs[0].items == ((15,),)


def test_the_checksum_covers_each_file(files):
    text = "- include: a.yml\n"
    files.write("a.yml", VMS.format("a"))
    first = files.read(text).digest
    files.write("a.yml", VMS.format("a") + "# more\n")
    assert files.read(text).digest != first


def test_mistakes_of_all_files_are_shown_at_once_each_in_its_own(files):
    files.write("a.yml", "- vms: a\n  vgpu: ['${b}']\n  hardware: {vrsion: 1}\n")
    files.write("b.yml", "- vms: [\n")
    found = files.faults("- include: [a.yml, b.yml, c.yml]\n- vms: x\n  vgpu: 5\n")
    assert [each[0] for each in found] == ["a.yml:2:11", "a.yml:3:14", "b.yml:2:1", "play.yml:1:27", "play.yml:3:9"]


def test_an_excerpt_is_of_the_file_of_the_mistake(files):
    files.write("a.yml", "# a\n# b\n- vms: a\n  vgpu: 7\n")
    with pytest.raises(InputError) as caught:
        files.read("- include: a.yml\n")
    assert caught.value.diagnostics[0].excerpt.startswith("    4 |   vgpu: 7")


def test_what_a_play_means_is_refused_in_its_own_file(files, estate):
    files.write("a.yml", "\n\n- vms: nothing-there\n  vgpu: [x]\n")
    playbook = files.read("- include: a.yml\n")
    with pytest.raises(InputError) as caught:
        desired(playbook, files.inventory(""), estate)
    (found,) = caught.value.diagnostics
    assert (found.mark.file, found.mark.line) == (str(files.folder / "a.yml"), 3)
    assert "nothing-there" in found.excerpt


@pytest.mark.parametrize(
    ("more", "text", "place", "message"),
    [
        ({}, "- include: a.yml", "play.yml:1:12", "there is no file"),
        ({}, "- include: 5", "play.yml:1:12", "expected the name of a file, but this is the number 5"),
        ({}, "- include: []", "play.yml:1:12", "this names no file"),
        ({}, "- include: ''", "play.yml:1:12", "expected the name of a file"),
        ({}, "- include: /etc/passwd", "play.yml:1:12", "is not a file below the folder of"),
        ({}, "- include: ../other/a.yml", "play.yml:1:12", "is not a file below the folder of"),
        ({}, '- include: "a\\0.yml"', "play.yml:1:12", "is not a file below the folder of"),
        ({}, f"- include: {'a' * 5000}.yml", "play.yml:1:12", "there is no file"),
        ({}, "- include: .", "play.yml:1:12", "it is a folder, not a file"),
        ({}, "- include: play.yml", "play.yml:1:12", "in a circle: "),
        ({"a.yml": VMS}, "- include: a.yml\n  mig: {}", "play.yml:2:3", "'mig' cannot stand beside 'include'"),
        ({"a.yml": VMS}, "- include: [a.yml, ./a.yml]", "play.yml:1:20", "is included twice, first at"),
        ({"a.yml": "- include: play.yml"}, "- include: a.yml", "a.yml:1:12", "play.yml -> "),
        ({"a.yml": "vms: x"}, "- include: a.yml", "a.yml:1:1", "an included file is a list"),
        ({"a.yml": ""}, "- include: a.yml", "a.yml:1:1", "an included file is a list"),
        ({"a.yml": "- vms: *b"}, "- x-b: &b x\n- include: a.yml", "a.yml:1:8", "the alias *b has no anchor"),
    ],
)
def test_a_file_that_cannot_be_included(files, more, text, place, message):
    for name, content in more.items():
        files.write(name, content.format("x"))
    found = [each for each in files.faults(text + "\n- vms: x\n  vgpu: [x]\n") if each[0] == place]
    assert any(message in each[1] for each in found), found
    if "alias" in message:
        assert "only in its own file, also with include:" in found[0][2]


def test_a_name_that_is_nearly_there_is_suggested(files):
    files.write("hosts.yml", VMS.format("a"))
    assert "'hosts.yml'" in files.faults("- include: host.yml\n")[0][2]


def test_a_link_that_leads_elsewhere_is_not_followed(files, tmp_path_factory):
    outside = tmp_path_factory.mktemp("outside") / "secret.yml"
    outside.write_text("- vms: x\n  vgpu: hunter2\n")
    os.symlink(outside, files.folder / "a.yml")
    os.symlink("loop.yml", files.folder / "loop.yml")
    found = files.faults("- include: [a.yml, loop.yml]\n")
    assert [each[0] for each in found] == ["play.yml:1:13", "play.yml:1:20"]
    assert "hunter2" not in str(found)


def test_files_are_bounded_in_depth_number_and_size(files, monkeypatch):
    for number in range(12):
        files.write(f"d{number}.yml", f"- include: d{number + 1}.yml\n")
    files.write("d12.yml", VMS.format("x"))
    assert "levels deep" in files.faults("- include: d0.yml\n")[0][1]
    names = [f"n{number}.yml" for number in range(include.MOST_FILES + 1)]
    for name in names:
        files.write(name, VMS.format("x"))
    found = files.faults("".join(f"- include: {name}\n" for name in names))
    assert found[-1][1].startswith("the playbook includes more than")
    many = "- vms: x\n  vgpu: [" + "x," * (MAX_NODES // 2) + "]\n"
    files.write("one.yml", many)
    files.write("two.yml", many)
    assert any("holds more than" in each[1] for each in files.faults("- include: [one.yml, two.yml]\n"))
    monkeypatch.setattr(include, "MOST_BYTES", 200)
    files.write("three.yml", VMS.format("x") + "# long" * 40)
    assert any("is larger than" in each[1] for each in files.faults("- include: three.yml\n"))
