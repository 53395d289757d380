"""Tables of dated facts, made again from public material: ``python -m tools.facts TABLE SOURCE``.

SOURCE is a folder or file that was fetched before: for ``accelerate`` the unpacked wheel (or ``src``) of the release,
for ``operators`` ``hack/release.yaml`` of Mellanox/network-operator at the tag, for ``vgpu-types``
``assets/state-vgpu-device-manager/0500_configmap.yaml`` of NVIDIA/gpu-operator, for ``nccl``, ``nhc`` and
``cloud-init`` a work tree of NVIDIA/nccl, mej/nhc and canonical/cloud-init at the tag. A table gets the day of today.
What an earlier table had and the source has no more is kept as older, so that a check can name it. The other tables
are from pages in prose, which their first lines name.
"""

from __future__ import annotations

import ast
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import yaml

from tools.docgen.tables import PACKAGE, compiled_form
from vsphere_ai.guests.user_data import OURS
from vsphere_ai.model.tables import compiled

TABLES = {
    "accelerate": PACKAGE / "training" / "exports" / "accelerate.yaml",
    "cloud-init": PACKAGE / "guests" / "cloud_init.yaml",
    "nccl": PACKAGE / "training" / "exports" / "nccl.yaml",
    "nhc": PACKAGE / "health" / "nhc_checks.yaml",
    "operators": PACKAGE / "kubernetes" / "operators.yaml",
    "vgpu-types": PACKAGE / "gpu" / "vgpu_types.yaml",
}
CONVERTED = ("dynamo_backend", "fp16")
"""Keys of earlier releases that BaseConfig.from_yaml_file of Accelerate converts."""


class NotASource(ValueError):
    """What was given is no source of the table; the message names it, and what would work."""


def _class(path: Path, name: str) -> ast.ClassDef:
    classes = (node for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.ClassDef))
    try:
        return next(node for node in classes if node.name == name)
    except StopIteration:
        raise NotASource(f"{path}: there is no class {name}; give the package accelerate") from None


def _fields(node: ast.ClassDef) -> Iterator[str]:
    for each in node.body:
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
            yield each.target.id


def _members(node: ast.ClassDef) -> Iterator[str]:
    for each in node.body:
        if isinstance(each, ast.Assign) and isinstance(each.value, ast.Constant):
            yield str(each.value.value)


def accelerate(source: Path, before: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys of ClusterConfig and the kinds of DistributedType; `NotASource` where they are not there."""
    folder = next(
        (f for f in (source, source / "accelerate", source / "src/accelerate") if (f / "commands").is_dir()), None
    )
    if folder is None:
        raise NotASource(f"{source}: there is no accelerate/commands; unpack the wheel of the release")
    arguments = folder / "commands" / "config" / "config_args.py"
    version = re.search(r'^__version__ = "(\d+\.\d+)', (folder / "__init__.py").read_text("utf-8"), re.MULTILINE)
    if version is None:
        raise NotASource(f"{folder / '__init__.py'}: there is no __version__")
    own = (*_fields(_class(arguments, "BaseConfig")), *_fields(_class(arguments, "ClusterConfig")))
    keys = sorted({*own, *CONVERTED})
    types = sorted(_members(_class(folder / "utils" / "dataclasses.py", "DistributedType")))
    return {
        "about": "keys of Accelerate's configuration",
        "source": f"huggingface/accelerate {version[1]}, commands/config/config_args.py and utils/dataclasses.py",
        "release": version[1],
        "keys": keys,
        "older_keys": _older(before, "keys", keys),
        "types": types,
        "older_types": _older(before, "types", types),
    }


def _older(before: Mapping[str, Any], name: str, now: Sequence[str]) -> list[str]:
    return sorted({*before.get(name, ()), *before.get(f"older_{name}", ())} - set(now))


def operators(source: Path, before: Mapping[str, Any]) -> dict[str, Any]:
    """Return the newest release of the operator beside the newest patches of those before; `NotASource` without one."""
    document = yaml.safe_load(source.read_text("utf-8"))
    version = document.get("NetworkOperator", {}).get("version") if isinstance(document, dict) else None
    if not isinstance(version, str) or not re.fullmatch(r"v\d+\.\d+\.\d+", version):
        raise NotASource(f"{source}: there is no NetworkOperator.version of a release; give hack/release.yaml of a tag")
    patches = {patch.rpartition(".")[0]: patch for patch in before["network_operator_patches"]}
    newest = version.removeprefix("v")
    patches[newest.rpartition(".")[0]] = newest
    # vulnerabilities are corrected in the newest release and in the one before (platform support, life cycle)
    releases = sorted(patches, key=lambda release: [int(part) for part in release.split(".")])
    return {
        **before,
        "network_operator": patches[releases[-1]],
        "network_operator_patches": [patches[release] for release in releases],
        "network_operator_oldest": releases[-2:][0],
    }


def nhc(source: Path, before: Mapping[str, Any]) -> dict[str, Any]:
    """Return the checks of Node Health Check; `NotASource` where the folder is none of it.

    What a check needs (`always_fails`), and the checks of Azure's set, stay: no file of it lists them.
    """
    files = sorted((source / "scripts").glob("*.nhc"))
    text = "\n".join(file.read_text("utf-8", "replace") for file in files)
    checks = sorted(set(re.findall(r"^function check_(\w+)\(\)", text, re.MULTILINE)))
    if not checks:
        raise NotASource(f"{source}/scripts: there are no checks (function check_…); give a work tree of mej/nhc")
    return {**before, "checks": checks}


def cloud_init(source: Path, before: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys of cloud-config that this tool does not set; `NotASource` where the folder is none of cloud-init.

    Keys that the schema has no more are kept, since older images take them.
    """
    schema = source / "cloudinit" / "config" / "schemas" / "schema-cloud-config-v1.json"
    if not schema.is_file():
        raise NotASource(
            f"{source}: there is no {schema.relative_to(source)}; give a work tree of canonical/cloud-init"
        )
    keys = {*json.loads(schema.read_text("utf-8"))["properties"], *before["keys"]} - set(OURS)
    return {**before, "keys": sorted(keys)}


def nccl(source: Path, before: Mapping[str, Any]) -> dict[str, Any]:
    """Return the variables of NCCL by the way in which it reads them; `NotASource` where the folder is none of it.

    Names are without ``NCCL_``. Those of earlier releases are kept as older.
    """
    version = source / "makefiles" / "version.mk"
    if not version.is_file():
        raise NotASource(f"{source}: there is no makefiles/version.mk; give a work tree of NVIDIA/nccl")
    parts = dict(re.findall(r"^NCCL_(MAJOR|MINOR|PATCH) *:= *(\d+)", version.read_text("utf-8"), re.MULTILINE))
    files = sorted(each for each in (source / "src").rglob("*") if each.suffix in (".cc", ".h", ".cpp"))
    text = "\n".join(each.read_text("utf-8", "replace") for each in files)
    typed = re.findall(r"DEFINE_NCCL_PARAM\(\s*\w+,\s*([\w\s*]+?),\s*NCCL_([A-Z0-9_]+),(.*?)\);", text, re.DOTALL)
    levels = re.findall(r'ncclGetLevel\([^,]+, *(?:NULL|"NCCL_([A-Z0-9_]+)"), *"NCCL_([A-Z0-9_]+)"\)', text)
    found = re.findall(r'\bNCCL_PARAM\(\s*\w+,\s*"([A-Z0-9_]+)"', text)
    numbers = sorted({*found, *(disable for disable, _ in levels if disable)})
    distances = re.search(r"topoPathTypeStr\[\] *= *\{([^}]+)\}", text)
    if len(parts) < 3 or not found or not typed or not levels or distances is None:
        raise NotASource(f"{source}/src: there are no variables (NCCL_PARAM); give a work tree of NVIDIA/nccl")
    words = {name: re.findall(r'makeOption\("(\w+)"', options) for _, name, options in typed}
    texts = re.findall(r'[gG]et[eE]nv\("NCCL_([A-Z0-9_]+)"', text) + [name for kind, name, _ in typed if "char" in kind]
    return {
        "about": "variables of NCCL",
        "source": "github.com/NVIDIA/nccl src (NCCL_PARAM, DEFINE_NCCL_PARAM, ncclGetEnv, ncclGetLevel)",
        "release": f"{parts['MAJOR']}.{parts['MINOR']}.{parts['PATCH']}",
        "numbers": numbers,
        "older_numbers": _older(before, "numbers", numbers),
        "booleans": sorted(name for kind, name, _ in typed if kind == "bool"),
        "words": {name: options for name, options in sorted(words.items()) if options},
        "levels": sorted(level for _, level in levels),
        # the last two of them are no distances between GPUs and NICs of a node
        "distances": re.findall(r'"(\w+)"', distances[1].partition('"NET"')[0]),
        "texts": sorted(set(texts) - set(numbers)),
    }


def vgpu_types(source: Path, before: Mapping[str, Any]) -> dict[str, Any]:
    """Return the vGPU types and how many one GPU takes; `NotASource` where the file has none.

    Types that the file has no more are kept, since older drivers have them. A board whose name ends in its memory
    (``DC-32GB``) has the types of that name without it whose vGPUs fit into this memory together.
    """
    document = yaml.safe_load(source.read_text("utf-8"))
    text = document.get("data", {}).get("config.yaml") if isinstance(document, dict) else None
    configs = yaml.safe_load(text).get("vgpu-configs") if isinstance(text, str) else None
    if not isinstance(configs, dict):
        raise NotASource(f"{source}: there is no data.config.yaml with vgpu-configs; give 0500_configmap.yaml")
    types: dict[str, dict[str, int]] = {board: dict(counts) for board, counts in before["types"].items()}
    small = {board: (own[1], int(own[2])) for board in types if (own := re.fullmatch(r"(.+)-(\d+)GB", board))}
    for entry in (entry for entries in configs.values() for entry in entries):
        for name, count in entry["vgpu-devices"].items():
            parts = re.fullmatch(r"(.+?)-((?:\d-)?(\d+)[A-Z]+)", name)
            if parts is None:
                raise NotASource(f"{source}: '{name}' is no vGPU type such as A100D-3-40C")
            board, key, size = parts.groups()
            fitting = (own for own, (of, gb) in small.items() if of == board and int(size) * count <= gb)
            types.setdefault(next(fitting, board), {})[key] = count
    return {
        "schema_version": before["schema_version"],
        "source": "github.com/NVIDIA/gpu-operator assets/state-vgpu-device-manager/0500_configmap.yaml",
        "about": before["about"],
        "types": {board: dict(sorted(counts.items())) for board, counts in sorted(types.items())},
    }


MAKERS: Mapping[str, Callable[[Path, Mapping[str, Any]], dict[str, Any]]] = {
    "accelerate": accelerate, "cloud-init": cloud_init, "nccl": nccl, "nhc": nhc, "operators": operators,
    "vgpu-types": vgpu_types,
}  # fmt: skip


def text_of(table: Mapping[str, Any], comments: str, today: date) -> str:
    """Return a table as the text of its file, with the comments that it began with."""
    body = yaml.safe_dump({**table, "read": today}, sort_keys=False, width=100, default_flow_style=None)
    return comments + body


def _comments(text: str) -> str:
    lines = text.splitlines(keepends=True)
    return "".join(lines[: next((n for n, line in enumerate(lines) if not line.startswith("#")), len(lines))])


def main(argv: Sequence[str]) -> int:
    """Make a table again; 1 where the source is none."""
    if len(argv) != 2 or argv[0] not in MAKERS:
        print(f"usage: python -m tools.facts {'|'.join(MAKERS)} SOURCE", file=sys.stderr)
        return 2
    path = TABLES[argv[0]]
    text = path.read_text("utf-8") if path.exists() else ""
    try:
        made = MAKERS[argv[0]](Path(argv[1]), yaml.safe_load(text) or {})
    except (NotASource, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    path.write_text(text_of(made, _comments(text), date.today()), "utf-8")
    compiled_form(path).write_text(compiled(path.read_bytes()), "utf-8")
    print(f"{path.relative_to(PACKAGE.parent)}: read {date.today()}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
