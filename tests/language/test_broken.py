"""Every file below broken/ is refused with all of its faults, each at its line and column, with a way out."""

from __future__ import annotations

from pathlib import Path

import pytest

from vsphere_ai.errors import InputError
from vsphere_ai.language.inventories.inventory import load_inventory
from vsphere_ai.language.playbooks.playbook import load_playbook

BROKEN = Path(__file__).parent / "broken"

# file -> (line:column, what the message says, what the help says), in the order of the file
EXPECTED = {
    "playbooks/variables.yml": [
        ("2:15", "a variable has no 'typ'", "did you mean 'type'?"),
        ("3:5", "'Size' is no name of a variable", "a name is of small letters, digits and '_', begins with a le"),
        ("4:36", "'cpus' takes a whole number, but this is 'many'", "write a whole number"),
        ("6:11", "there is no variable 'profil'", "declare it: '- vars: {profil: ...}'; '$${' stands for the tw"),
        ("7:43", "there is no variable 'locked'", "declare it: '- vars: {locked: ...}'; '$${' stands for the tw"),
    ],
    "playbooks/variable-in-key.yml": [
        ("2:3", "this play has no settings", "add one of: hardware, pvrdma, vgpu"),
        ("3:3", "the key '${kind}' cannot hold a variable", "variables are for values"),
        ("3:3", "unknown key '${kind}'", "possible here: datacenters, hardware, hosts, name, power, pv"),
    ],
    "playbooks/merge-twice.yml": [
        ("6:5", "the key '<<' is given twice", "write one, with a list: '<<: [*one, *two]'"),
    ],
    "playbooks/merge-a-text.yml": [
        (
            "2:18",
            "'<<' takes a mapping, or a list of mappings, but this is 'vmx-19'",
            "write '<<: *NAME', or '<<: [*ONE, *TWO]', each the alias of ",
        ),
    ],
    "playbooks/include-missing.yml": [
        ("1:13", "parts/none.yml", "name a file, relative to this one, in the folder of the play"),
        (
            "1:29",
            "'/etc/passwd' is not a file below the folder of ",
            "name a file, relative to this one, in the folder of the play",
        ),
    ],
    "playbooks/anchors-only.yml": [
        ("1:1", "the playbook has no play", "start one with '- hosts: ...' or '- vms: ...'"),
    ],
    "inventories/variables.yml": [
        (
            "2:19",
            "an inventory has no variables in its own values",
            "write the value; one inventory per site is chosen with -i",
        ),
        (
            "3:17",
            "a value of 'profile' is text, a number, true or false, or a list of th",
            "repeat mappings with an anchor and '<<: *NAME'",
        ),
        ("3:31", "'Site' is no name of a variable", "a name is of small letters, digits and '_', begins with a le"),
        ("4:33", "values of variables are a mapping, but this is a list", "write 'NAME: VALUE' lines"),
        ("5:20", "values of a host are a mapping, but this is 'a'", "write 'esx01: {NAME: VALUE}'"),
    ],
    "inventories/a-list.yml": [
        ("1:1", "expected a mapping (key: value), but this is a list", "write a mapping (key: value)"),
    ],
    "inventories/group-patterns.yml": [
        ("1:38", "this must not be empty", "write a value for 'username'"),
        ("3:23", "the range [02:01] cannot be read", "low end first"),
        ("4:17", "the pattern '!esx-09' only takes away", "all,!esx-09"),
        ("5:21", "there is no pattern", "write a name, a group, or all"),
    ],
    "inventories/groups.yml": [
        ("3:3", "'gpu hosts' cannot be a name here", "use letters, digits, '_', '-' and '.', and start with a letter"),
        ("4:9", "this selects nothing", "'tag: ...'"),
        ("5:3", "'all' always means every object", "choose another name for this group"),
        ("6:12", "unknown key 'pool'", "possible here: any, attribute, cluster, datacenter, folder, gpu, names, power"),
        ("8:13", "expected a mapping (key: value), but this is the number 5", "write a mapping (key: value)"),
        ("9:14", "expected text, but this is the number 5", 'quote it: "5"'),
    ],
    "inventories/lab-and-vcenter.yml": [
        ("2:1", "'vcenters' comes from the lab", "remove it, or remove 'lab: true'"),
    ],
    "inventories/lab-word.yml": [
        ("1:6", "expected true or false, but this is 'yes'", "write true or false"),
    ],
    "inventories/literal-password.yml": [
        (
            "2:60",
            "a password must not be in the file",
            "name the place it is in",
        ),
    ],
    "inventories/missing-keys.yml": [
        ("2:9", "'password' is missing", "add 'password: ...' here"),
        ("2:9", "'username' is missing", "add 'username: ...' here"),
        ("3:6", "'known_hosts' is missing", "add 'known_hosts: ...' here"),
    ],
    "inventories/no-vcenter.yml": [
        ("1:1", "no vCenter is given", "add 'vcenters: {NAME: {address: ..., ...}}' or 'lab: true'"),
    ],
    "inventories/port-range.yml": [
        ("2:41", "the number 70000 is out of range", "give at most 65535"),
        ("3:19", "'vc:443' is not a host name or an IP address", "write a port as 'port: ...', not behind the name"),
        ("3:35", "expected a whole number, but this is '443'", "write a whole number"),
    ],
    "inventories/ssh-both.yml": [
        ("2:6", "ssh needs one of 'password' and 'key_file'", "keep exactly one of them"),
    ],
    "inventories/ssh.yml": [
        (
            "3:13",
            "a password must not be in the file",
            "name the place it is in",
        ),
        ("6:18", "'sometimes' is not allowed here", "possible here: always, apply, never"),
        ("7:22", "99999 is not a port", "give 1 to 65535"),
    ],
    "inventories/tls.yml": [
        (
            "2:70",
            "this is not a SHA-256 fingerprint (64 hexadecimal digits)",
            "show it with: openssl x509 -noout -fingerprint -sha256 -in CERTIFICATE",
        ),
        ("3:57", "unknown key 'verify'", "possible here: ca_file, fingerprint"),
        ("4:56", "'ca_file' and 'fingerprint' exclude each other", "keep one of them"),
    ],
    "inventories/unknown-section.yml": [
        ("1:1", "unknown key 'vcenter'", "did you mean 'vcenters'?"),
    ],
    "inventories/unquoted-number-password.yml": [
        ("3:5", "unknown key 'adress'", "did you mean 'address'?"),
        (
            "5:15",
            "a password must not be in the file",
            "name the place it is in",
        ),
    ],
    "inventories/url-address.yml": [
        ("2:19", "'https://vc.example.com/sdk' is not an address", "write the name or IP address only: vc.example.com"),
    ],
    "inventories/vcenter-name.yml": [
        ("2:3", "'a b' cannot be a name here", "use letters, digits, '_', '-' and '.', and start with a letter"),
        ("3:51", "unknown key 'name'", "the name is the key above"),
        ("4:6", "expected a mapping (key: value), but this is 'vc.example.com'", "write a mapping (key: value)"),
    ],
    "playbooks/alias-unknown.yml": [
        ("1:10", "the alias *gpu_hosts has no anchor above it", "quote a value that starts with '*'"),
    ],
    "playbooks/bad-layout.yml": [
        ("5:9", "'half' is not a MIG profile", "write e.g. 3g.20gb"),
        ("7:40", "expected text or a whole number, but this is the number 1.5", 'quote it: "1.5"'),
    ],
    "playbooks/bad-pattern.yml": [
        ("1:10", "the range [02:01] cannot be read", "low end first, both ends equally wide: [01:16]"),
        ("3:10", "the pattern 'a::b' has an empty part", "write e.g. gpu_hosts:!esx-09"),
        ("5:10", "the pattern '!a' only takes away", "start with what it takes from: all,!a"),
        ("7:14", "expected a pattern, but this is the number 7", 'quote it: "7"'),
        ("9:10", "'esx[1' holds a range that cannot be read", "write [01:16] or [a:f]"),
    ],
    "playbooks/both-targets.yml": [
        ("2:3", "a play is for 'hosts' or for 'vms', not for both", "make two plays of it"),
    ],
    "playbooks/colon-in-text.yml": [
        (
            "1:13",
            "mapping values are not allowed in this context",
            "check the indentation of this line, and quote a value that holds ': '",
        ),
    ],
    "playbooks/duplicate-keys.yml": [
        ("3:3", "the key 'mig' is given twice", "it is already in line 2: keep one of them"),
        ("5:27", "the key 'version' is given twice", "it is already in line 5: keep one of them"),
        ("6:9", "expected a list, but this is the number 5", "write a list: [5]"),
    ],
    "playbooks/empty.yml": [
        ("1:1", "the playbook is empty", "start each play with '- hosts: ...' or '- vms: ...'"),
    ],
    "playbooks/latin1.yml": [
        ("2:10", "the byte 0xfc is not UTF-8", "save the file as UTF-8"),
    ],
    "playbooks/list-as-key.yml": [
        ("1:3", "a key must be text, not a list or a mapping", "quote it, and write 'key: value'"),
    ],
    "playbooks/many-at-once.yml": [
        ("1:3", "unknown key 'nmae'", "did you mean 'name'?"),
        ("3:15", "'on' is not allowed here", "possible here: disabled, enabled"),
        ("4:43", "unknown key 'assignment_polcy'", "did you mean 'assignment_policy'?"),
        ("6:10", "unknown key 'profile'", "did you mean 'profiles'?"),
        ("7:12", "expected a mapping (key: value), but this is 'dvpg-rdma'", "write a mapping (key: value)"),
    ],
    "playbooks/mapping-for-list.yml": [
        ("2:11", "'pvrdma' is a list, but this is one item of it", "write 'pvrdma:' and below it '- ...', or [...]"),
    ],
    "playbooks/missing-key.yml": [
        ("3:7", "'port_group' is missing", "add 'port_group: ...' here"),
        ("5:17", "'rocev3' is not allowed here", "did you mean 'rocev2' or 'rocev1'?"),
    ],
    "playbooks/name-is-a-list.yml": [
        ("1:9", "expected text, but this is a list", "write text; quote it when it looks like a number"),
        ("4:12", "expected text, but this is the number 8", "write text; quote it when it looks like a number"),
    ],
    "playbooks/no-target.yml": [
        ("1:3", "this play does not say what it is for", "add 'hosts: PATTERN' or 'vms: PATTERN'"),
    ],
    "playbooks/not-a-list.yml": [
        ("1:1", "the playbook is not a list of plays", "start each play with '- hosts: ...' or '- vms: ...'"),
    ],
    "playbooks/nothing-wanted.yml": [
        ("1:3", "this play has no settings", "add one of: graphics, mig"),
    ],
    "playbooks/nul.yml": [
        ("2:17", "the control character U+0000 is not allowed", "remove it"),
    ],
    "playbooks/null-kind.yml": [
        ("2:3", "'mig' says nothing", "say what should be, or remove the line"),
    ],
    "playbooks/number-for-text.yml": [
        ("2:10", "expected text, but this is the number 20", 'quote it: "20"'),
    ],
    "playbooks/observed-field.yml": [
        ("2:37", "'mmio_size_gb' is read, not set", "remove it: the tool shows it, a playbook cannot set it"),
        ("4:31", "'mac' is read, not set", "remove it: the tool shows it, a playbook cannot set it"),
    ],
    "playbooks/octal-looking.yml": [
        ("2:23", "expected a whole number, but this is '017'", "write a whole number"),
    ],
    "playbooks/on-is-not-true.yml": [
        ("2:22", "expected true or false, but this is 'on'", "write true or false"),
    ],
    "playbooks/open-bracket.yml": [
        (
            "3:11",
            "did not find expected ',' or ']' while parsing a flow sequence that starts in line 2",
            "check commas and closing brackets",
        ),
    ],
    "playbooks/open-quote.yml": [
        ("1:9", "found unexpected end of stream while scanning a quoted scalar", "a quote is not closed"),
    ],
    "playbooks/out-of-range.yml": [
        ("2:23", "the number 9 is out of range", "give at least 13"),
    ],
    "playbooks/power-unknown.yml": [
        ("3:11", "unknown key 'forced'", "did you mean 'force'?"),
        ("3:43", "'soon' is not a time", "write a number and a unit: 90s, 30m, 1h30m"),
    ],
    "playbooks/rolling-on-vms.yml": [
        ("3:3", "'rolling' is for plays of hosts", "move it to a play with 'hosts:'"),
    ],
    "playbooks/rolling-values.yml": [
        ("4:22", "the number 0 is not a number of hosts", "write 1 or more, or a share of the cluster such as 25%"),
        ("5:15", "'poweroff' is not allowed here", "did you mean 'power_off'?"),
        ("6:14", "this time has no unit", "write e.g. 30s or 30m"),
        ("9:30", "'120%' is not a number of hosts", "write 1 or more, or a share of the cluster such as 25%"),
        ("9:45", "'30min' is not a time", "write a number and a unit: 90s, 30m, 1h30m"),
        ("9:60", "the number 5 is not allowed here", "possible here: api, ssh"),
        ("12:22", "a time must be more than 0 and at most 24h", "write e.g. 30m"),
    ],
    "playbooks/scalar-for-list.yml": [
        ("2:9", "expected a list, but this is 'grid_a100-20c'", "write a list: [grid_a100-20c]"),
    ],
    "playbooks/scalar-play.yml": [
        (
            "3:3",
            "a play is a mapping, but this is 'just text'",
            "write '- hosts: ...' or '- vms: ...' and below it what they should be",
        ),
    ],
    "playbooks/tab-indent.yml": [
        (
            "2:1",
            "found a tab character that violates indentation while scanning a plain scalar that starts in line 1",
            "indent with spaces",
        ),
    ],
    "playbooks/tag.yml": [
        ("1:10", "expected a pattern, but this is ''", "write a name, a group, or all"),
        ("1:10", "the tag !esx01 is not allowed", "remove it; quote a value that starts with '!'"),
        ("2:8", "the tag !!python/object:os.system is not allowed", "remove it; quote a value that starts with '!'"),
    ],
    "playbooks/terminal-escape.yml": [
        ("1:3", "this play has no settings", "add one of: graphics, mig"),
        ("1:10", "'esx�[2J' holds a range that cannot be read", "write [01:16] or [a:f]"),
        ("2:3", "unknown key 'mig�'", "did you mean 'mig'?"),
    ],
    "playbooks/text-for-number.yml": [
        ("2:23", "expected a whole number, but this is 'vmx-19'", "write a whole number"),
    ],
    "playbooks/two-documents.yml": [
        ("3:1", "a second document starts here", "one file holds one document: remove this '---'"),
    ],
    "playbooks/unknown-key.yml": [
        ("2:3", "unknown key 'grafics'", "did you mean 'graphics'?"),
    ],
    "playbooks/unknown-nested-key.yml": [
        ("2:9", "unknown key 'profles'", "possible here: gpus, layout, mode"),
    ],
    "playbooks/utf16.yml": [
        ("1:1", "the file is UTF-16", "save it as UTF-8"),
    ],
    "playbooks/wrong-indent.yml": [
        (
            "3:2",
            "did not find expected '-' indicator while parsing a block collection that starts in line 1",
            "the items of a list start in one column",
        ),
    ],
    "playbooks/wrong-literal.yml": [
        ("2:28", "'shared_drect' is not allowed here", "did you mean 'shared_direct' or 'shared'?"),
    ],
    "playbooks/wrong-target.yml": [
        ("3:3", "'vgpu' is a setting of virtual machines, this play is for hosts", "move it to a play with 'vms: ...'"),
    ],
}


def refuse(name, kinds):
    with pytest.raises(InputError) as caught:
        load_playbook(BROKEN / name, kinds) if name.startswith("playbooks/") else load_inventory(BROKEN / name)
    return caught.value


@pytest.mark.parametrize("name", EXPECTED)
def test_every_fault_is_named_with_its_place(name, kinds):
    error = refuse(name, kinds)
    shown = [(f"{d.mark.line}:{d.mark.column}", d.message, d.help) for d in error.diagnostics]
    assert [place for place, _, _ in shown] == [place for place, _, _ in EXPECTED[name]]
    for (_, message, help), (_, said, advised) in zip(shown, EXPECTED[name], strict=True):
        assert said in message
        assert advised in help
    assert error.exit_code == 65
    assert all(d.mark.file == str(BROKEN / name) for d in error.diagnostics)


def test_every_broken_file_is_in_the_table():
    files = {f"{path.parent.name}/{path.name}" for path in BROKEN.rglob("*.yml")}
    assert files == set(EXPECTED)
    assert len(files) >= 30


@pytest.mark.parametrize("name", EXPECTED)
def test_no_fault_repeats_a_password_or_obeys_the_file(name, kinds):
    for diagnostic in refuse(name, kinds).diagnostics:
        text = diagnostic.message + diagnostic.help + diagnostic.excerpt
        assert "hunter2" not in text
        assert "12345" not in text
        assert all(character.isprintable() or character == "\n" for character in text)


@pytest.mark.parametrize("name", EXPECTED)
def test_the_caret_is_below_the_column(name, kinds):
    for diagnostic in refuse(name, kinds).diagnostics:
        if diagnostic.excerpt:
            line, caret = diagnostic.excerpt.split("\n")
            assert line.startswith(f"{diagnostic.mark.line:5} | ")
            assert caret.index("^") == len("      | ") + diagnostic.mark.column - 1
