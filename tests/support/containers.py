"""Names of container images, and the lines of a Containerfile with its arguments filled in."""

from __future__ import annotations

import re

# the grammar of github.com/distribution/reference; a digest of an algorithm that it knows
_DOMAIN = r"(?:[A-Za-z0-9][A-Za-z0-9.-]*(?::\d+)?/)?"
_PATH = r"[a-z0-9]+(?:[._/-]+[a-z0-9]+)*"
_IMAGE = re.compile(rf"{_DOMAIN}{_PATH}(?::[\w][\w.-]{{0,127}})?(?P<digest>@sha256:[0-9a-f]{{64}})?")


def is_image(name):
    """Whether this can be the name of an image."""
    return bool(_IMAGE.fullmatch(name))


def base(text, **arguments):
    """The name of the image that a Containerfile begins with; arguments without a default are empty without one."""
    before, name = re.search(r"(?ms)^(.*?)^FROM (\S+)$", text).groups()
    given = {**dict.fromkeys(re.findall(r"(?m)^ARG (\w+)$", before), ""),
             **dict(re.findall(r"(?m)^ARG (\w+)=(\S*)$", before)), **arguments}  # fmt: skip
    return re.sub(r"\$\{(\w+)\}", lambda match: given[match[1]], name)


def pinned(text, **arguments):
    """Whether a Containerfile with these arguments begins with an image that is named by its digest."""
    found = _IMAGE.fullmatch(base(text, **arguments))
    return bool(found and found["digest"])
