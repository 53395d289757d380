"""Names that others give, as they stand in files of other programs: one function per format.

A user who may name a VM, a host, a switch or an interface of a guest writes into these files. A function returns the
text that the format's reader takes for the name and for nothing else, or raises `Refused` (``export.name``) with the
object and the value. Comments and prose refuse nothing: what could end them is replaced.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection
from dataclasses import dataclass
from ipaddress import ip_address

from vsphere_ai.errors import Refused
from vsphere_ai.model.text import cut, safe

RULE = "export.name"
MOST_SHOWN = 80
"""Columns of a value that an error shows."""
LONGEST_COMMENT = 1_000
"""Characters of a comment on one line. NCCL reads lines of at most 4,095 bytes (NVIDIA/nccl, src/misc/param.cc)."""


@dataclass(frozen=True)
class _Form:
    """What a reader takes for one name: `words` say it, `otherwise` what the reader does with anything else."""

    file: str
    pattern: re.Pattern[str]
    words: str
    otherwise: str
    reserved: frozenset[str] = frozenset()
    """Words with a meaning of their own to the reader, in small letters."""

    def take(self, what: str, value: str) -> str:
        """Return a value as it is; `Refused` where the reader could take it for something else."""
        if value.lower() in self.reserved:
            raise refusal(what, value, self.file, f"the word means something else there: {self.otherwise}", self.words)
        if not self.pattern.fullmatch(value):
            raise refusal(what, value, self.file, self.otherwise, self.words)
        return value


def refusal(what: str, value: str, file: str, otherwise: str, words: str) -> Refused:
    """Return the error for a value that cannot be written: `what` names the object, ``name of the VM``."""
    shown = cut(safe(value), MOST_SHOWN)
    message = f"the {what} '{shown}' cannot be written into {file}: {otherwise}"
    return Refused(message, f"{words}; change it, or leave the object out", rule=RULE)


# the letters are those of ASCII: a reader knows no others, and some look alike
_HOST = r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}"
_HOST_WORDS = "a name there has letters of ASCII, digits, '.', '_' and '-', and begins with a letter or a digit"
_DEVICE = r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}"
_NHC = _Form("a configuration of NHC", re.compile(_HOST), _HOST_WORDS, "each node runs what stands there as a command")
_SLURM = _Form(
    "files of Slurm", re.compile(_HOST), _HOST_WORDS,
    "Slurm would read a list, another key, a comment, or what is meant for all nodes",
    frozenset({"all", "default", "none"}),
)  # fmt: skip
_NCCL = _Form(
    "settings of NCCL", re.compile(_DEVICE), _HOST_WORDS,
    "NCCL would read a list, a port, an exception, or another variable",
)  # fmt: skip
_NCCL_VALUE = _Form(
    "settings of NCCL", re.compile(r"[!-~](?:[ -~]{0,998}[!-~])?"), "a value there has 1 to 1,000 signs of ASCII",
    "NCCL would cut it, or read a part of it as another variable",
)  # fmt: skip
# words with which a host file of Open MPI says something of the host before them (orte/util/hostfile/hostfile_lex.l)
_ADDRESS = _Form(
    "the addresses of nodes", re.compile(_HOST),
    "an address is one of IPv4 or IPv6 without a zone, or the DNS name of a host",
    "the programs that read it would take it for an option, for several hosts, or for settings of a host",
    frozenset({"slots", "slots_max", "slots-max", "max_slots", "max-slots", "count", "cpu", "cpus", "rank", "boards",
               "sockets", "cores", "port", "user", "username", "user_name", "user-name", "localhost"}),
)  # fmt: skip
_ANSIBLE = _Form(
    "an inventory of Ansible", re.compile(r"\w[\w.-]*"),
    "a host has letters, digits, '.', '_' and '-' there",
    "Ansible would read a pattern, a port, an option, or its own machine",
    frozenset({"all", "ungrouped", "localhost"}),
)  # fmt: skip
_ANSIBLE_VALUE = _Form(
    "an inventory of Ansible", re.compile(r"(?:(?!\{[{%#])[ -~])*"),
    "a value there has signs of ASCII without {{, {% and {#",
    "Ansible carries out what stands in braces",
)  # fmt: skip
_FIELD = _Form(
    "lines with tabs", re.compile(r"[^\x00-\x20\x7f-\xa0#\u2028\u2029](?:[^\x00-\x1f\x7f-\x9f\u2028\u2029]*)"),
    "a field has no tab and no line end, and begins with neither a blank nor #", "it would end the field",
)  # fmt: skip
_KNOWN_HOSTS = _Form(
    "a file of known hosts", re.compile(_HOST),
    "a host is an address or a DNS name there, in brackets where a port follows",
    "SSH would trust the key for other hosts",
)  # fmt: skip
_XML = _Form(
    "a topology file of NCCL", re.compile(r"[ !#-%'-;=?-~]{1,250}"),
    "an attribute has at most 250 signs of ASCII without <, >, & and quotes", "NCCL would read further attributes",
)  # fmt: skip


def nhc_name(what: str, value: str) -> str:
    """Return the name of a node, an interface or a device for NHC, whose lines a shell evaluates."""
    return _NHC.take(what, value)


def slurm_name(what: str, value: str) -> str:
    """Return the name of a node for slurm.conf, gres.conf and topology.conf."""
    return _SLURM.take(what, value)


def slurm_switch_names(switches: Collection[str], taken: Collection[str] = ()) -> dict[str, str]:
    """Return what switches are called in topology.conf: other signs are replaced, and no two get one name."""
    found: dict[str, str] = {}
    for switch in switches:
        name = re.sub(r"[^A-Za-z0-9_-]+", "_", switch)[:60].lstrip("-_") or "switch"
        free = (n for n in (name, *(f"{name}_{i}" for i in range(2, len(switches) + len(taken) + 3))))
        used = {each.lower() for each in (*found.values(), *taken)} | _SLURM.reserved
        found[switch] = next(n for n in free if n.lower() not in used)
    return found


def nccl_name(what: str, value: str) -> str:
    """Return the name of an interface or an RDMA device for a list of NCCL."""
    return _NCCL.take(what, value)


def nccl_value(what: str, value: str) -> str:
    """Return the value of a variable in nccl.conf."""
    return _NCCL_VALUE.take(what, value)


def host_address(what: str, value: str) -> str:
    """Return the address of a node for host files, commands of launchers, and files of SSH.

    The `ip_address` of Python takes any text behind a ``%`` for a zone, so that one is refused.
    """
    if not value:
        raise Refused(
            f"the {what} is not known", "power it on and look at its VMware Tools, or leave it out", rule=RULE
        )
    if _is_ip_address(value):
        return value
    if re.fullmatch(r"[0-9.]+|0[xX][0-9A-Fa-f]*", value):  # inet_aton(3) makes an address of any number
        raise refusal(what, value, _ADDRESS.file, "it would be read as another address", _ADDRESS.words)
    return _ADDRESS.take(what, value)


def _is_ip_address(text: str) -> bool:
    try:
        return "%" not in text and text.isascii() and bool(ip_address(text).version)
    except ValueError:
        return False


def known_hosts_name(what: str, value: str) -> str:
    """Return the first field of a line of known_hosts: an address or a name of one host, with its port in brackets."""
    with_port = re.fullmatch(r"\[(.+)\]:[0-9]{1,5}", value)
    host = with_port[1] if with_port else value
    return value if _is_ip_address(host) or _KNOWN_HOSTS.take(what, host) else ""


def pattern_address(what: str, value: str) -> str:
    """Return a regular expression of Prometheus that means the address of a node, with which URLs name it."""
    address = host_address(what, value)
    return re.sub(r"([.\[\]])", r"\\\1", f"[{address}]" if ":" in address else address)


def ansible_name(what: str, value: str) -> str:
    """Return the name of a host in an inventory of Ansible."""
    return _ANSIBLE.take(what, value)


def ansible_text(what: str, value: str) -> str:
    """Return the value of a variable in an inventory of Ansible, which fills in templates there."""
    return _ANSIBLE_VALUE.take(what, value)


def tab_field(what: str, value: str) -> str:
    """Return a field of a line in which tabs stand between fields."""
    return _FIELD.take(what, value)


def xml_attribute(what: str, value: str) -> str:
    """Return the value of an attribute in a topology file; NCCL's parser knows no entities."""
    return _XML.take(what, value)


def xml_comment(text: str) -> str:
    """Return the content of a comment in XML: nothing ends it, and it has no sign that XML 1.0 forbids."""
    return re.sub(r"-(?=-)|[<>\ufffe\uffff]", "_", safe(text)).rstrip("-")


def line_comment(text: str, mark: str = "# ") -> str:
    """Return comments of lines that begin with `mark`, without the last line end; words stay whole where they can."""
    words, lines = safe(text).split(" "), [""]
    for word in words:
        pieces = [word[at : at + LONGEST_COMMENT] for at in range(0, len(word), LONGEST_COMMENT)] or [""]
        for number, piece in enumerate(pieces):
            blank = " " if lines[-1] and not number else ""
            if len(lines[-1]) + len(piece) >= LONGEST_COMMENT:
                lines.append(piece)
            else:
                lines[-1] += blank + piece
    return "\n".join(f"{mark}{line}".rstrip() for line in lines)


_MARKDOWN = re.compile(r"([\\\[\]*_`!~#@|])")
_LINKS = re.compile(r"(?i)\b(https?|ftp|mailto|xmpp|www)(?=[:.])")
_BLOCK = re.compile(r"^([-+=>]|\d{1,9}(?=[.)]))")


def markdown_text(text: str) -> str:
    """Return a text that is no markup within a line of Markdown: no link, picture, element, emphasis, mention, cell."""
    shown = _MARKDOWN.sub(r"\\\1", safe(text).strip()).replace("&", "&amp;").replace("<", "&lt;")
    return _LINKS.sub(r"\1\\", shown)


def markdown_line(text: str) -> str:
    """Return a text as `markdown_text` that may begin a line: it is no list, quotation or heading either."""
    shown = markdown_text(text)
    begun = _BLOCK.match(shown)
    if begun is None:
        return shown
    return f"{begun[1]}\\{shown[begun.end() :]}" if begun[1].isdecimal() else f"\\{shown}"


def shell_word(text: str) -> str:
    """Return a word for bash, on one line, without a sign that a terminal would obey."""
    if safe(text) == text:
        return shlex.quote(text)
    inner = (c if safe(c) == c else _in_shell(c) for c in text.replace("\\", "\\\\").replace("'", "\\'"))
    return f"$'{''.join(inner)}'"


def _in_shell(character: str) -> str:
    number = ord(character)
    return f"\\x{number:02x}" if number < 0x80 else f"\\U{number:08x}"


def is_one_word(text: str) -> bool:
    """Return whether a shell takes a name as one word as it is: it splits others, or runs what they hold."""
    return bool(re.fullmatch(r"[^\W_](?:[\w.@%+=/:-]*)", text))
