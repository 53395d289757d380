"""Values of YAML as programs in Go take them: the words and numbers of go-yaml 2."""

from __future__ import annotations

import math

import pytest

from vsphere_ai.language.yaml_files.document import parse
from vsphere_ai.language.yaml_files.go_values import go_data, go_value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("yes", True), ("Y", True), ("on", True), ("TRUE", True), ("n", False), ("Off", False), ("yEs", "yEs"),
        ("", None), ("~", None), ("null", None), ("NULL", None), ("nil", "nil"),
        ("0", 0), ("-7", -7), ("+3", 3), ("1_000", 1000), ("017", 15), ("0o17", 15), ("0x1F", 31), ("0b101", 5),
        ("09", 9.0), ("1.0", 1.0), ("3.", 3.0), (".5", 0.5), ("1e3", 1000.0), ("-1.5E-1", -0.15),
        ("9223372036854775807", 2**63 - 1), ("18446744073709551615", 2**64 - 1), ("+18446744073709551615", 2.0**64),
        ("18446744073709551616", 2.0**64), ("1e999", "1e999"), (".inf", math.inf), ("-.Inf", -math.inf),
        ("2001-01-01", "2001-01-01"), ("1.2.3", "1.2.3"), ("0x", "0x"), ("v1", "v1"), ("1g.5gb", "1g.5gb"), ("-", "-"),
    ],
)  # fmt: skip
def test_scalars(text, value):
    """Each was read by sigs.k8s.io/yaml 1.6, whose go-yaml is 2.4.3."""
    found = go_value(text)
    assert (found, type(found)) == (value, type(value))


def test_quotes_and_blocks_are_text():
    data = go_data(parse("{a: 'yes', b: \"017\", c: yes, d: [~, '~']}\n", "a.yaml").root)
    assert data == {"a": "yes", "b": "017", "c": True, "d": (None, "~")}
    assert go_data(parse("a: |\n  on\n", "a.yaml").root) == {"a": "on\n"}
