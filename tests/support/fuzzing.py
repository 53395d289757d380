"""Random files: good ones spoilt byte by byte and line by line, and ones made up from the words of the language."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator

from support.places import ROOT
from support.seeds import FULL as FULL
from support.seeds import SEED as SEED
from vsphere_ai.errors import InputError
from vsphere_ai.language.yaml_files.document import parse

BROKEN = ROOT / "tests" / "language" / "broken"
FAULTS = b"""- {on: ReconfigVM_Task, nth: 2, when: after, do: {restart: 2s, starting: 1s}}
- {on: any, probability: 0.05, do: {delay: 200ms}, seed: 3, times: 4}
- on: "ssh: nvidia-smi .*"
  target: esx0*
  every: 3
  do: {exit: 19}
- {on: PowerOnVM_Task, do: {task-fails: ConcurrentAccess}}
- {on: RebootHost_Task, do: {gpu-missing: "0000:3b:00.0"}}
"""

PIECES = (
    *"[]{}:,-?&*!|>'\"%@`#~\t\r\n\0\x7f\x1b\u2028\u202e\x85",
    *(": ", "- ", "<<: *a", "&a ", "*a", "&a [*a]", "!!python/name:os.system ", "!!python/object/apply:os.system [x] "),
    *("!!int ", "!!timestamp x", "!x ", "---\n", "...\n", "%YAML 1.1\n", "null", "true", "yes", "0x", "1e9", ".inf"),
    *("2001-99-99", "9" * 400, "9" * 5000, "0" * 30, "-1", "1_000", "٣", "\\ud800", "\ufeff", "\U0001f600", "e\u0301"),
    *("0000:04:00.0", "ffff:ff:1f.7", "12:30", "017", "[01:16]", "[1:999999999]", "[99:1]", "[a:f]", "!all", "&all"),
    *("hosts: ", "vms: ", "mig: ", "password: ", "env:", "cmd:", "../../etc/passwd", "${HOME}", "{{7*7}}", "{" * 40),
    *("${version}", "$${", "${", "<<: [*a, *a]", "vars: {a: 1}", "- vars: ", "- include: ", "include: a.yml", "x-a: "),
)
_WORDS = """name hosts vms rolling power vcenter spare_hosts graphics mig hardware vgpu pvrdma pvrdma_host layout mode
gpus parted profiles adapters uvm memory_locked vmknic firewall default_type assignment_policy version firmware protocol
memory_reservation cpu_reservation_mhz max_unavailable evacuate reboot timeout force shutdown_timeout port_group file
config vcenters address port username password tls ca_file fingerprint ssh key_file key_passphrase known_hosts lab
start_service cluster folder datacenter names timing clusters switches port_groups boards board pci device_id driver
nvidia_driver graphics_type cpu_cores memory_gb boot_seconds drs folder host network power tools extra_config vlan
vars host_vars include x-a default description allowed type integer list boolean
on target nth every probability seed times when do delay restart starting fault exit task-fails gpu-missing ?"""
WORDS = tuple(_WORDS.split())
VALUES = (
    *("all", "gpu_hosts", "train-[01:04]", "esx*:!esx02", "a:&b", "!a", "[", "HostSystem:host-1", "/DC1/vm/x", ""),
    *("enabled", "disabled", "shared", "shared_direct", "sharedDirect", "performance", "power_off", "vmotion", "ssh"),
    *("3g.20gb", "1g.5gb:0", "7g.40gb:9", "grid_a100-3-20c", "grid_a100-40c", "rocev2", "efi", "bios", "30m", "25%"),
    *("env:VC", "file:x", "cmd:a 'b", "prompt:", "keyring:a/b", "hunter2", "0000:3b:00.0", "a100-40gb", "470.256.02"),
    *("vc.example.com", "https://x/", "::1", "esx01.lab.local:22", "AA" * 32, "7.0.2", "ReconfigVM_Task", "lost-reply"),
    *("any", "ssh: (", "ssh: nvidia", "hang", "503", "before", "after", "mid-body", "2s", "1e3", "on", "off", "no"),
    *(0, 1, 4, 7, 19, 40, 65535, 65536, -1, 10**18, 10**30, 0.5, 1.5, True, False, None),
)


def spoilt(chance: random.Random, originals: tuple[bytes, ...]) -> bytes:
    """One of the originals with one to six changes."""
    text = bytearray(chance.choice(originals))
    for _ in range(chance.randint(1, 6)):
        at = chance.randint(0, len(text))
        end = min(len(text), at + chance.randint(0, 40))
        match chance.randrange(8):
            case 0 | 1:
                text[at:at] = chance.choice(PIECES).encode("utf-8", "surrogatepass")
            case 2:
                del text[at:end]
            case 3:
                text[at:end] = chance.randbytes(chance.randint(0, 8))
            case 4:
                text[at:at] = text[at:end]
            case 5:
                _line(chance, text)
            case 6:
                _word(chance, text)
            case _ if text:
                text[at % len(text)] = chance.choice(b" :-[]{}'\"abgst019")
    return bytes(text)


def _line(chance: random.Random, text: bytearray) -> None:
    """Lose, repeat, move or indent a line."""
    lines = text.split(b"\n")
    at = chance.randrange(len(lines))
    line = lines[at]
    match chance.randrange(4):
        case 0:
            del lines[at]
        case 1:
            lines.insert(at, line)
        case 2:
            lines.insert(chance.randrange(len(lines)), lines.pop(at))
        case _:
            lines[at] = chance.choice((b"  ", b"\t", b"- ", b" ")) + line
    text[:] = b"\n".join(lines)


def _word(chance: random.Random, text: bytearray) -> None:
    """Put another word, or another value, where a word was."""
    found = list(re.finditer(rb"[\w.-]+", text))
    if found:
        word = chance.choice(found)
        other = chance.choice((*WORDS, *(str(v) for v in VALUES)))
        text[word.start() : word.end()] = other.encode()


def made_up(chance: random.Random, skeletons: tuple[object, ...]) -> bytes:
    """A file of the right shape (one of the skeletons, with parts exchanged) or of any shape, as JSON or YAML."""
    if chance.random() < 0.75:
        skeleton = chance.choice(skeletons)
        value = exchanged(chance, skeleton, chance.choice((0.3, 1.0, 3.0, 8.0)) / _size(skeleton))
    else:
        value = anything(chance, 5)
    if chance.random() < 0.4:
        return json.dumps(value, ensure_ascii=chance.random() < 0.5).encode("utf-8", "surrogatepass")
    return ("\n".join(_yaml(chance, value, 0)) + "\n").encode()


def exchanged(chance: random.Random, value: object, rate: float) -> object:
    """A copy with some values, keys and items exchanged, lost or doubled."""
    if chance.random() < rate / 2:
        return anything(chance, 2)
    if isinstance(value, dict):
        found = {}
        for key, inner in value.items():
            if chance.random() > rate / 3:
                new = chance.choice(WORDS) if chance.random() < rate / 2 else key
                found[new] = exchanged(chance, inner, rate)
        if chance.random() < rate:
            found[chance.choice(WORDS)] = anything(chance, 2)
        return found
    if isinstance(value, (list, tuple)):
        kept = [exchanged(chance, inner, rate) for inner in value if chance.random() > rate / 3]
        return kept + kept[-1:] if chance.random() < rate / 2 else kept
    return chance.choice(VALUES) if chance.random() < rate else value


OTHERS = (
    *(0, -1, 40, 10**18, 10**400, 0.5, -0.0, True, None, "", "x", "3g.20gb", "[", "!a", "30m", "env:VC"),
    *({}, [], {"a": "b"}, {"mode": 1.5}, [[]], [{}], [None], [1.5], [True]),
)


def one_by_one(value: object, *, at: str = "") -> Iterator[tuple[str, object]]:
    """Every copy of a value in which one part is of another kind or value than it should be."""
    for other in OTHERS:
        yield f"{at} = {other!r:.30}", other
    if isinstance(value, dict):
        for key, inner in value.items():
            yield f"{at}.{key} gone", {k: v for k, v in value.items() if k != key}
            yield from ((w, {**value, key: new}) for w, new in one_by_one(inner, at=f"{at}.{key}"))
    elif isinstance(value, (list, tuple)):
        for n, inner in enumerate(value):
            yield from ((w, [*value[:n], new, *value[n + 1 :]]) for w, new in one_by_one(inner, at=f"{at}[{n}]"))


def _size(value: object) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return 1 + sum(map(_size, inner))


def anything(chance: random.Random, depth: int) -> object:
    """A value of any shape, at most so deep."""
    if depth == 0 or chance.random() < 0.35:
        return chance.choice(VALUES)
    size = chance.randint(0, 4)
    if chance.random() < 0.5:
        return [anything(chance, depth - 1) for _ in range(size)]
    return {chance.choice(WORDS): anything(chance, depth - 1) for _ in range(size)}


def _yaml(chance: random.Random, value: object, indent: int) -> list[str]:
    """Block style with flow style here and there; scalars bare, quoted or, now and then, as they should not be."""
    pad = "  " * indent
    if not isinstance(value, (dict, list)) or not value or chance.random() < 0.2:
        return [pad + _flow(chance, value)]
    lines = []
    for key, inner in value.items() if isinstance(value, dict) else ((None, v) for v in value):
        below = _yaml(chance, inner, indent + 1)
        head = f"{pad}- " if key is None else f"{pad}{key}: "
        if len(below) == 1 and not isinstance(inner, (dict, list)):
            lines.append(head + below[0].strip())
        else:
            lines += [head.rstrip(), *below]
    return lines


def _flow(chance: random.Random, value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k}: {_flow(chance, v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_flow(chance, v) for v in value) + "]"
    if isinstance(value, str):
        return value if chance.random() < 0.3 else json.dumps(value)
    return json.dumps(value)


def originals(kind):
    """The good files of a kind, and the bad ones there are."""
    if kind == "faults":
        return (FAULTS,)
    if kind == "scenario":
        return ((ROOT / "vsphere_ai/lab/scenarios/default.yml").read_bytes(),)
    if kind == "values":
        return tuple(p.read_bytes() for p in sorted((ROOT / "playbooks/sites").glob("*.yml")))
    folder = {"playbook": "playbooks", "inventory": "inventories"}[kind]
    good = [p.read_bytes().replace(b"lab: true", b"") for p in sorted((ROOT / folder).glob("*.yml"))] * 4
    return (*good, *(p.read_bytes() for p in sorted((BROKEN / folder).glob("*.yml"))))


def skeletons(kind):
    """The good files of a kind as values."""
    found = []
    for text in originals(kind):
        try:
            found.append(parse(text.decode(), kind).data)
        except (InputError, UnicodeDecodeError):
            continue
    return tuple(found)
