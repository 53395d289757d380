"""Bombs in JSON, YAML and XML: refused in words that quote nothing, in bounded memory and time."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import textwrap

import pytest

from vsphere_ai.model.bounded import json_value, xml_root, yaml_documents, yaml_value

CANARY = "hunter2"
LAUGHS = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 10)
)
MERGES = "a0: &a0 {k: v}\n" + "".join(f"a{n}: &a{n} {{<<: [*a{n - 1}, *a{n - 1}]}}\n" for n in range(1, 40))
ENTITIES = '<!DOCTYPE a [<!ENTITY b "bbbbbbbbbb"><!ENTITY c "&b;&b;&b;&b;&b;&b;&b;&b;">]><a>&c;</a>'


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        '{"a":' * 100_000,
        f'["{CANARY}"',
        f'{{"{CANARY}": }}',
        "[" * 65 + "]" * 65,
        "",
        CANARY,
        b'"\xff"',
    ],
    ids=range(8),
)
def test_json_that_is_refused(text):
    with pytest.raises(ValueError, match=r".") as raised:
        json_value(text)
    assert CANARY not in str(raised.value)


def test_json_of_many_values():
    assert json_value("[1, 2, 3]", values=3) == [1, 2, 3]
    with pytest.raises(ValueError, match="more than 2 values"):
        json_value("[1, 2, 3, 4]", values=2)


@pytest.mark.parametrize(
    "value", [{"a": [1, {"b": "]]]]["}]}, "[[[[", ["\\", '\\"[', "\u2028"], {}, [], None, 1.5, [[[[[[[]]]]]]], {"": ""}]
)
def test_json_that_is_read(value):
    for text in (json.dumps(value), json.dumps(value, ensure_ascii=False), json.dumps(value, indent=2).encode()):
        assert json_value(text, depth=7) == value


def test_brackets_in_strings_are_no_levels():
    assert json_value(json.dumps("[" * 10_000)) == "[" * 10_000
    assert json_value(json.dumps(['\\"' + "{" * 200])) == ['\\"' + "{" * 200]


@pytest.mark.parametrize(
    "text",
    [
        "[" * 10_000,
        "- " * 10_000 + "x",
        LAUGHS,
        MERGES,
        "- x\n" * 50_001,
        "&a [*a]",
        f"a: !!python/object/apply:os.system [{CANARY}]",
        f"a: !{CANARY} b",
        f"a: *{CANARY}",
        f"a: '{CANARY}",
        f"{CANARY}: [{CANARY}",
        "a: 2020-13-45",
        "a: \x01",
        "x" * (5 << 20),
    ],
    ids=range(14),
)
def test_yaml_that_is_refused(text):
    with pytest.raises(ValueError, match=r".") as raised:
        yaml_documents(text)
    assert CANARY not in str(raised.value)


def test_yaml_that_is_read():
    assert yaml_value("a: [1, two]\nb: &b {c: d}\ne: *b\n") == {"a": [1, "two"], "b": {"c": "d"}, "e": {"c": "d"}}
    assert yaml_value("") is None
    assert [(d.line, d.value) for d in yaml_documents("--- # one\na: 1\n---\n- b\n")] == [(2, {"a": 1}), (4, ["b"])]
    with pytest.raises(ValueError, match="a second document starts"):
        yaml_value("a: 1\n---\nb: 1\n")


@pytest.mark.parametrize(
    "text",
    ["<a>" * 33 + "</a>" * 33, f"<a>{'<b/>' * 200_000}</a>", ENTITIES, f"<a><{CANARY}></a>", "", "<a></b>", "<a " * 10],
    ids=range(7),
)
def test_xml_that_is_refused(text):
    with pytest.raises(ValueError, match=r".") as raised:
        xml_root(text)
    assert CANARY not in str(raised.value)


def test_attributes_count_as_elements():
    names = " ".join(f"a{n}='1'" for n in range(20))
    with pytest.raises(ValueError, match="more than 10 elements"):
        xml_root(f"<a {names}/>", elements=10)
    assert xml_root(b"<a b='1'><c>d</c></a>").findtext("c") == "d"


MEMORY = """
    import resource
    from vsphere_ai.benchmarks.baseline_file import BaselineFile
    from vsphere_ai.errors import InputError
    from vsphere_ai.language.yaml_files.document import FaultCollector, parse
    from vsphere_ai.language.yaml_files.model_files import read_model
    from vsphere_ai.gpu.smi.smi_xml import parse_xml
    from vsphere_ai.gpu.smi.listings import UnreadableOutput
    entry = "- {operation: all_reduce, busbw: 1.0}\\n"
    def read_baseline(text):
        faults = FaultCollector()
        return read_model(BaselineFile, parse(text, "b.yml", faults), faults)

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for name, function, text in (
        ("baseline", read_baseline, "baseline: 1\\nnccl:\\n" + entry * (2 * 10**6 // 38)),
        ("flow", read_baseline, "[" + "{}," * 10**6 + "]"),
        ("nested xml", lambda text: parse_xml(0, text), "<nvidia_smi_log>" + "<a>" * 2_000_000),
        ("wide xml", lambda text: parse_xml(0, text), "<nvidia_smi_log>" + "<a/>" * 2_000_000 + "</nvidia_smi_log>"),
    ):
        try:
            function(text)
            raise SystemExit(f"{name}: not refused")
        except (InputError, UnreadableOutput):
            pass
    print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


def test_what_is_refused_takes_little_memory():
    """A baseline of 2 MB took 718 MB, and nested XML as much: its values were made before they were counted."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(MEMORY)],
        capture_output=True,
        text=True,
        timeout=120,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30)),
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 150, f"{done.stdout.strip()} MiB"
