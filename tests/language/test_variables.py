"""Variables: declared with types, given at several levels, put into values with their type, and refused by place."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from language.variables_support import Files, stated

from vsphere_ai.errors import UsageError
from vsphere_ai.language.playbooks.play import from_document, to_document

DECLARED = """\
- vars:
    profile: {default: a100-20c, allowed: [a100-20c, a100-40c], description: of each VM}
    version: 19
    full: {type: boolean, default: true}
    profiles: [one, two]
    share: {type: number, default: 1}
    site: {type: text}
"""
PLAY = "- vms: train-01\n"


@pytest.fixture
def files(tmp_path, kinds):
    return Files(tmp_path, kinds)


def test_a_whole_value_keeps_its_type_and_within_a_text_it_is_text(files):
    text = (
        DECLARED
        + PLAY
        + (
            "  name: ${site} has ${version} and ${full}, $${version}\n"
            "  hardware: {version: '${version}', locked: '${full}'}\n  vgpu: ${profiles}\n"
            "  pvrdma: [{port_group: 'pg-${profile}'}]\n"
        )
    )
    playbook = files.read(text, pairs=["site=Köln"])
    assert playbook.plays[0].name == "Köln has 19 and true, ${version}"
    found = stated(playbook)
    assert (found["hardware.version"], found["hardware.locked"]) == (19, True)
    assert found["vgpu.profiles"] == ("one", "two")
    assert found["pvrdma.adapters"][0].port_group == "pg-a100-20c"


LEVELS = {"inventory": "vars: {version: 14}", "play": 15, "file": ["version: 16"], "var": ["version=17"]}


@pytest.mark.parametrize(
    ("given", "version", "level", "place"),
    [
        ((), 13, "default", "play.yml:1:19"),
        (("inventory",), 14, "inventory", "inventory.yml:2:17"),
        (("inventory", "play"), 15, "play", "play.yml:3:19"),
        (("inventory", "play", "file"), 16, "vars file", "values-0.yml:1:10"),
        (("inventory", "play", "file", "var"), 17, "--var", ""),
        (("inventory", "var"), 17, "--var", ""),
    ],
)
def test_each_level_wins_over_those_below_it(files, given, version, level, place):
    play = "  vars: {version: 15}\n" if "play" in given else "  name: x\n"
    text = f"- vars: {{version: 13}}\n{PLAY}{play}  hardware: {{version: '${{version}}'}}\n"
    playbook = files.read(
        text,
        pairs=LEVELS["var"] if "var" in given else (),
        values=LEVELS["file"] if "file" in given else (),
        inventory=LEVELS["inventory"] if "inventory" in given else None,
    )
    assert stated(playbook)["hardware.version"] == version
    last = playbook.variables[-1]
    assert (last.name, last.value, last.level) == ("version", version, level)
    assert last.place.removeprefix(f"{files.folder}/") == place


def test_a_later_file_and_a_later_pair_win(files):
    text = f"- vars: {{version: 13}}\n{PLAY}  hardware: {{version: '${{version}}'}}\n"
    assert stated(files.read(text, values=["version: 14", "version: 15"]))["hardware.version"] == 15
    assert stated(files.read(text, pairs=["version=16", "version=17"]))["hardware.version"] == 17


def test_a_value_of_one_play_is_not_one_of_another(files):
    text = "- vars: {version: 13}\n" + (PLAY + "  vars: {version: 14}\n  hardware: {version: '${version}'}\n")
    text += "- vms: train-02\n  hardware: {version: '${version}'}\n"
    playbook = files.read(text)
    assert [stated(playbook, n)["hardware.version"] for n in (0, 1)] == [14, 13]
    assert [(v.value, v.play) for v in playbook.variables] == [(13, ""), (14, "vms train-01")]


def test_a_variable_that_nothing_names_is_known_to_be_unused(files):
    playbook = files.read("- vars: {a: 1, b: 2}\n- vms: 'train-0${a}'\n  vgpu: [x]\n")
    assert {v.name: v.used for v in playbook.variables} == {"a": True, "b": False}


def test_outputs_take_variables_beside_values_of_vms(files):
    text = (
        "- vars: {port: 29500, raw: '$${x}'}\n"
        + PLAY
        + "  vgpu: [x]\n- outputs: {a: '${port}', b: 'x${port}${raw}$${z}'}\n"
    )
    playbook = files.read(text)
    assert [each.items for each in playbook.outputs] == [((29500,),), (("x29500", "${", "x}", "${", "z}"),)]


def test_a_playbook_with_variables_is_saved_with_their_values(files, kinds):
    playbook = files.read(DECLARED + PLAY + "  vgpu: ['${profile}']\n", pairs=["site=x"])
    again = from_document(json.loads(json.dumps(to_document(playbook))), kinds)
    assert again == playbook
    assert {v.name for v in again.variables} == {"profile", "version", "full", "profiles", "share", "site"}


def test_the_checksum_covers_values_of_every_level(files):
    text = f"- vars: {{version: 13}}\n{PLAY}  hardware: {{version: '${{version}}'}}\n"
    several = [
        files.read(text),
        files.read(text, pairs=["version=14"]),
        files.read(text, values=["version: 15"]),
        files.read(text, inventory="vars: {version: 16}"),
    ]
    assert len({each.digest for each in several}) == len(several)
    assert files.read(text).digest == several[0].digest


WHERE = "play.yml:"
MISTAKES = [
    # declarations
    ("- vars: {a: {type: int, default: 1}}", "1:20", "'int' is no type of a variable", "did you mean 'integer'"),
    ("- vars: {a: {type: integer, default: x}}", "1:38", "'a' takes a whole number, but this is 'x'", "whole number"),
    ("- vars: {a: {type: text, defualt: b}}", "1:26", "a variable has no 'defualt'", "did you mean 'default'"),
    ("- vars: {a: {description: x}}", "1:10", "nothing says what the values of 'a' are", "add 'type: ...'"),
    ("- vars: {a: }", "1:13", "'a' has no value here", "NAME: DEFAULT"),
    ("- vars: {a: {default: {b: c}}}", "1:23", "a value of 'a' is text", "anchor"),
    ("- vars: {a: [[1]]}", "1:13", "a value of 'a' is text", "anchor"),
    ("- vars: {Big-Name: 1}", "1:10", "'Big-Name' is no name of a variable", "small letters"),
    ("- vars: {a: {default: z, allowed: [x, y]}}", "1:23", "'a' cannot be 'z'", "allowed: x, y"),
    ("- vars: {a: {type: integer, allowed: [x]}}", "1:38", "'a' takes a whole number", "whole number"),
    ("- vars: {a: {allowed: []}}", "1:23", "'allowed' is a list of values", "[a, b]"),
    ("- vars: []", "1:9", "'vars' declares variables, but this is a list", "NAME: DEFAULT"),
    ("- vars: {a: 1}\n  mig: {}", "2:3", "'mig' cannot stand beside 'vars'", "an item of their own"),
    ("- vars: {a: 1}\n- vars: {a: 2}", "2:10", "the variable 'a' is declared already, at ", "keep one"),
    ("- vars: {a: 'x ${b}'}", "1:13", "has no variables and references in it", "two variables"),
    ("- vars: {db_password: hunter2}", "1:23", "'db_password' sounds like a secret", "env:NAME"),
    # values of a play
    (
        "- vars: {a: b}\n- vms: x\n  vgpu: ['${a}']\n  vars: {aa: 1}",
        "4:10",
        "declares no variable 'aa'",
        "did you mean",
    ),
    ("- vars: {a: 1}\n- vms: x\n  vgpu: [x]\n  vars: {a: x}", "4:13", "'a' takes a whole number", "whole number"),
    # uses
    ("- vars: {profile: a}\n- vms: x\n  vgpu: ['${profil}']", "3:11", "there is no variable 'profil'", "'profile'?"),
    ("- vms: x\n  vgpu: ['${HOME}']", "2:11", "there is no variable 'HOME'", "write $${HOME}"),
    ("- vms: x\n  vgpu: ['a${']", "2:12", "'${' is not closed", "'$${' stands for the two signs"),
    ("- vms: x\n  vgpu: ['a${}']", "2:12", "names no variable", "write '${NAME}'"),
    ("- vars: {a: [b]}\n- vms: x\n  vgpu: ['c-${a}']", "3:13", "this variable is a list", "value of its own"),
    ("- vars: {a: {type: text}}\n- vms: x\n  vgpu: ['${a}']", "3:11", "the variable 'a' has no value", "--var a=VALUE"),
    ("- vars: {a: b}\n- vms: x\n  vgpu: [x]\n  '${a}': 1", "4:3", "cannot hold a variable", "values"),
    (
        "- vars: {a: b}\n- vms: x\n  hardware: {version: '${a}'}",
        "3:23",
        "is 'b' (the value of 'a' from default at",
        "write",
    ),
    ("- vars: {a: '['}\n- vms: ${a}\n  vgpu: [x]", "2:8", "from default at", "[01:16]"),
    ("- vms: x\n  x-a: 1\n  vgpu: [x]", "2:3", "'x-a' cannot stand in a play", "an item of its own"),
]


@pytest.mark.parametrize(
    ("text", "place", "message", "help"), MISTAKES, ids=[m[0].replace("\n", " ") for m in MISTAKES]
)
def test_a_mistake_is_named_once_at_its_column(files, text, place, message, help):
    if "\n- vms" not in text and not text.startswith("- vms"):
        text += "\n- vms: x\n  vgpu: [x]\n"
    found = [each for each in files.faults(text) if "unknown key" not in each[1]]
    assert [each[0] for each in found] == [f"{WHERE}{place}"], found
    assert message in found[0][1]
    assert help in found[0][2]
    assert "hunter2" not in str(found)


def test_all_mistakes_of_a_file_are_shown_at_once(files):
    text = "- vars: {a: 1}\n- vms: x\n  vgpu: ['${b}']\n  hardware: {vrsion: '${c}', locked: 1}\n"
    places = [each[0] for each in files.faults(text)]
    assert places == [f"{WHERE}{at}" for at in ("3:11", "4:14", "4:23", "4:38")]


def test_a_line_of_a_longer_text_is_found(files):
    text = "- vms: x\n  name: |\n    first\n    then ${b}\n  vgpu: [x]\n"
    assert files.faults(text)[0][0] == f"{WHERE}4:10"


@pytest.mark.parametrize(
    ("pair", "message", "help"),
    [
        ("version", "--var is not NAME=VALUE", "write e.g."),
        ("Version=1", "--var Version is not NAME=VALUE", "write e.g."),
        ("versoin=14", "--var versoin: the playbook declares no such variable", "did you mean 'version'?"),
        ("version=x", "--var version: 'version' takes a whole number, but this is 'x'", "whole number"),
        ("version=", "takes a whole number", "whole number"),
        ("full=yes", "takes true or false", "true or false"),
        ("profile=b", "'profile' cannot be 'b'", "allowed: a100-20c, a100-40c"),
        ("site=${version}", "has no variables and references in it", "two variables"),
    ],
)
def test_a_wrong_pair_is_a_usage_error(files, pair, message, help):
    with pytest.raises(UsageError) as caught:
        files.read(DECLARED + PLAY + "  vgpu: [x]\n", pairs=[pair])
    assert (caught.value.exit_code, caught.value.rule) == (64, "usage.var")
    assert message in caught.value.message
    assert help in caught.value.remedy


def test_a_secret_on_the_command_line_is_not_repeated(files):
    with pytest.raises(UsageError) as caught:
        files.read("- vars: {pw: 'env:A'}\n" + PLAY + "  vgpu: [x]\n", pairs=["pw=hunter2"])
    assert "hunter2" not in caught.value.message + caught.value.remedy


@pytest.mark.parametrize(
    ("pair", "value"),
    [
        ("share=0.5", 0.5),
        ("share=2", 2),
        ("full=false", False),
        ("profiles=a,b", ("a", "b")),
        ("profiles=[0000:3b:00.0, 7]", ("0000:3b:00.0", 7)),
        ("profiles=", ()),
        ("site=017", "017"),
        ("site=a=b", "a=b"),
        ("site=$${x}", "${x}"),
    ],
)
def test_a_pair_is_of_the_declared_type(files, pair, value):
    playbook = files.read(DECLARED + PLAY + "  vgpu: [x]\n", pairs=[pair])
    assert {v.name: v.value for v in playbook.variables}[pair.partition("=")[0]] == value


@pytest.mark.parametrize(
    ("values", "place", "message"),
    [
        ("versoin: 1", "1:1", "the playbook declares no variable 'versoin'"),
        ("version: x", "1:10", "'version' takes a whole number"),
        ("x: [", "2:1", ""),
        ("[a]", "1:1", "values of variables are a mapping"),
        ("version: {a: 1}", "1:10", "a value of 'version' is text"),
        ("site: 7", "1:7", "'site' takes text, but this is the number 7"),
        ("profile: a", "1:10", "'profile' cannot be 'a'"),
        ("site: ${version}", "1:7", "has no variables and references in it"),
    ],
)
def test_a_mistake_in_a_file_of_values_is_named_in_it(files, values, place, message):
    found = files.faults(DECLARED + PLAY + "  vgpu: [x]\n", values=[values])
    assert found[0][0] == f"values-0.yml:{place}"
    assert message in found[0][1]


def test_a_file_of_values_may_hold_anchors_and_be_empty(files):
    text = DECLARED + PLAY + "  vgpu: [x]\n"
    playbook = files.read(text, values=["", "x-a: &a {version: 15}\n<<: *a\nsite: b\n"])
    assert {v.name: v.value for v in playbook.variables}["version"] == 15


def test_what_another_playbook_declares_is_passed_over_for_one_that_is_referred_to(files):
    text = "- vars: {a: 19}\n- vms: x\n  hardware: {version: '${a}'}\n"
    playbook = files.read(text, pairs=["b=1", "a=20"], values=["c: 1"], strict=False)
    assert stated(playbook)["hardware.version"] == 20


def test_an_inventory_has_no_variables_in_what_says_how_servers_are_reached(files):
    found = files.faults(
        "- vars: {a: b}\n- vms: x\n  vgpu: ['${a}']\n", inventory="ssh: {username: '${a}', key_file: k, known_hosts: k}"
    )
    assert found[0][:2] == ("inventory.yml:2:17", "an inventory has no variables in its own values")
    kept = files.inventory("ssh: {username: root, password: 'cmd:pass ${name}', known_hosts: k}")
    assert kept.ssh.password == "cmd:pass ${name}"


@pytest.mark.parametrize(
    ("inventory", "place", "message"),
    [
        ("vars: [a]", "2:7", "expected a mapping"),
        ("vars: {a: {b: 1}}", "2:11", "a value of 'a' is text"),
        ("host_vars: {esx01: 5}", "2:20", "values of a host are a mapping"),
        ("hosts: {g: {names: [a], vars: 5}}", "2:31", "values of variables are a mapping"),
        ("hosts: {g: {vars: {a: 1}}}", "2:12", "this selects nothing"),
        ("vms: {g: {names: [a], vars: {a: 1}}}", "2:23", "unknown key 'vars'"),
        ("vars: {api_token: abc}", "2:19", "sounds like a secret"),
    ],
)
def test_a_mistake_of_values_in_an_inventory(files, inventory, place, message):
    found = files.faults("- vars: {a: 1}\n- vms: x\n  vgpu: ['${a}']\n", inventory=inventory)
    assert any(each[0] == f"inventory.yml:{place}" and message in each[1] for each in found), found


TEXTS = st.text(st.sampled_from("ab{}:-# '\"\\é$"), max_size=12).filter(lambda text: not text.endswith("$"))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(before=TEXTS, value=TEXTS, after=TEXTS)
def test_a_value_is_put_in_once_and_as_it_is(files, before, value, after):
    """Whatever a value and the text around it hold, both come out as they are: nothing of a value is read again."""
    before, value, after = (text.replace("$${", "") for text in (before, value, after))
    parts = [text.replace("${", "$${") for text in (before, value, after)]
    text = [{"vars": {"v": parts[1]}}, {"vms": "x", "vgpu": ["x"], "name": f"n{parts[0]}${{v}}{parts[2]}"}]
    assert files.read(json.dumps(text)).plays[0].name == f"n{before}{value}{after}"


SCALARS = st.one_of(st.booleans(), st.integers(-9, 99), st.sampled_from(["a", "17", "true", "0000:3b:00.0"]))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(value=st.one_of(SCALARS, st.lists(SCALARS, max_size=3)))
def test_the_type_of_a_value_is_kept_at_every_level(files, value):
    text = [{"vars": {"v": value}}, {"vms": "x", "vgpu": ["x"]}, {"outputs": {"o": "${v}"}}]
    playbook = files.read(json.dumps(text), values=[json.dumps({"v": value})])
    kept = tuple(value) if isinstance(value, list) else value
    (variable,) = playbook.variables
    assert (variable.value, type(variable.value)) == (kept, type(kept))
    (output,) = playbook.outputs
    parts = tuple(item[0] for item in output.items)
    assert parts == (kept if isinstance(value, list) else (kept,))
    assert [type(part) for part in parts] == [type(each) for each in (kept if isinstance(value, list) else (kept,))]


def test_no_other_playbook_is_read_while_a_variable_has_a_mistake(files):
    asked = []
    files.write("network.yml", "")

    def resolve(reference):
        asked.append(reference.name)
        return "pg"

    text = "- vars: {a: b}\n- vms: x\n  name: '${a} ${ref:network.lan}'\n  vgpu: ['${ref:network.lan}', '${NAME}']\n"
    assert files.faults(text.replace("NAME", "c"), resolve=resolve)[0][0] == "play.yml:4:33"
    assert asked == []
    playbook = files.read(text.replace("NAME", "a"), resolve=resolve)
    assert (playbook.plays[0].name, stated(playbook)) == ("b pg", {"vgpu.profiles": ("pg", "b")})
    assert asked == ["lan", "lan"], "once per place"


def test_a_reference_is_looked_up_once_though_hosts_have_values_of_their_own(files):
    asked = []
    files.write("network.yml", "")

    def resolve(reference):
        asked.append(reference.name)
        return "3g.20gb"

    text = "- vars: {m: enabled}\n- hosts: all\n  mig: {mode: '${m}', layout: '${ref:network.l}'}\n"
    hosts = "host_vars: {esx01.lab.local: {m: disabled}, esx02.lab.local: {m: enabled}}"
    playbook = files.read(text, inventory=hosts, resolve=resolve)
    assert len(playbook.varying) == 1
    assert asked == ["l"]
