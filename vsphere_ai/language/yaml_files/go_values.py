"""Values of YAML as Go programs take them that read it through sigs.k8s.io/yaml: go-yaml 2, then JSON.

Of YAML 1.1 they have more words for true and false (``yes``, ``on``, ``y``), octal numbers (``017``) and underscores
in numbers; of a date they make a text. Source: resolve.go and decode.go of go.yaml.in/yaml/v2 2.4.3.
"""

from __future__ import annotations

import re

from vsphere_ai.language.yaml_files.yaml import YamlNode

_WORDS: dict[str, bool | float | None] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), float("nan")),
    **{f"{sign}{word}": float("inf") for sign in ("", "+") for word in (".inf", ".Inf", ".INF")},
    **{f"-{word}": float("-inf") for word in (".inf", ".Inf", ".INF")},
}
# strconv.ParseInt with base 0, after the underscores are taken out
_INTEGER = re.compile(r"([+-]?)(0[xX][0-9a-fA-F]+|0[bB][01]+|0[oO][0-7]+|0[0-7]*|[1-9][0-9]*)", re.ASCII)
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", re.ASCII)
_MOST = 2**63, 2**64
"""What int64 and uint64 have no place for."""


def go_value(text: str) -> str | int | float | bool | None:
    """Return what a scalar without quotes is to go-yaml 2."""
    if text in _WORDS:
        return _WORDS[text]
    plain = text.replace("_", "") if text[0] in "+-0123456789" else text
    number = _INTEGER.fullmatch(plain)
    if number is not None and (value := _integer(number[1], number[2].lower())) is not None:
        return value
    if _FLOAT.fullmatch(plain) and abs(approximate := float(plain)) != float("inf"):
        return approximate
    return text


def _integer(sign: str, digits: str) -> int | None:
    """Return a number that fits into 64 bits; only one without a sign may fill them."""
    octal = len(digits) > 1 and digits[0] == "0" and digits[1] in "01234567"
    value = int(digits, 8 if octal else 0) * (-1 if sign == "-" else 1)
    return value if -_MOST[0] <= value < _MOST[0 if sign else 1] else None


def go_data(node: YamlNode) -> object:
    """Return the plain value of a node as such a program has it; the keys of mappings as they are written."""
    if isinstance(node.value, dict):
        return {key: go_data(below) for key, below in node.value.items()}
    if isinstance(node.value, list):
        return tuple(go_data(below) for below in node.value)
    return node.value if node.quoted else go_value(node.source)
