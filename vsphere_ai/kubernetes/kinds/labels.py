"""Names, labels and selectors as Kubernetes validates them, for the operators that hand them on to its own functions.

Source: kubernetes/apimachinery, pkg/util/validation/validation.go and pkg/apis/meta/v1/validation;
containernetworking/cni, pkg/utils/utils.go (names of networks).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated

from pydantic import Field

from vsphere_ai.kubernetes.objects import BrokenRule, Spec, broken, keeps

MOST_LABEL, MOST_SUBDOMAIN = 63, 253
SELECTOR = "kubernetes.selector"

_LABEL = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_CNI_NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_.-]*")


def subdomain(text: str) -> str:
    """Return a name of an object (DNS-1123 subdomain); `ValueError` with a sentence for anything else."""
    if len(text) > MOST_SUBDOMAIN or not _SUBDOMAIN.fullmatch(text):
        raise ValueError(f"'{text}' is no name of an object\nwrite small letters, digits, '-' and '.'")
    return text


def network_name(text: str) -> str:
    """Return a name of a network of CNI; `ValueError` with a sentence for anything else."""
    if not _CNI_NAME.fullmatch(text):
        raise ValueError(f"'{text}' is no name of a CNI network\nwrite letters, digits, '_', '.' and '-'")
    return text


def label_key(text: str) -> str:
    """Return the key of a label, ``NAME`` or ``DOMAIN/NAME``; `ValueError` with a sentence for anything else."""
    domain, slash, name = text.rpartition("/")
    if slash:
        subdomain(domain)
    if len(name) > MOST_LABEL or not _LABEL.fullmatch(name):
        raise ValueError(f"'{text}' is no key of a label\nwrite NAME or DOMAIN/NAME, NAME of at most {MOST_LABEL}")
    return text


def label_value(text: str) -> str:
    """Return the value of a label, which may be empty; `ValueError` with a sentence for anything else."""
    if text and (len(text) > MOST_LABEL or not _LABEL.fullmatch(text)):
        raise ValueError(
            f"'{text}' is no value of a label\nwrite at most {MOST_LABEL} letters, digits, '-', '_' and '.'"
        )
    return text


LabelKey = Annotated[str, keeps(SELECTOR, label_key)]
LabelValue = Annotated[str, keeps(SELECTOR, label_value)]


class Expression(Spec):
    """One condition of a label selector; `values` is for ``In`` and ``NotIn``."""

    key: LabelKey
    operator: str
    values: tuple[LabelValue, ...] = ()

    def broken_rules(self) -> Iterator[BrokenRule]:
        """Yield an operator that there is not, and values that it cannot have."""
        if self.operator in ("In", "NotIn"):
            if not self.values:
                yield broken(SELECTOR, f"{self.operator} needs values", "add 'values', a list")
        elif self.operator in ("Exists", "DoesNotExist"):
            if self.values:
                yield broken(SELECTOR, f"{self.operator} has no values", "remove 'values'", ("values",))
        else:
            help = "write In, NotIn, Exists or DoesNotExist"
            yield broken(SELECTOR, f"there is no operator '{self.operator}' of labels", help, ("operator",))


class LabelSelector(Spec):
    """Which objects: all the given conditions hold."""

    matchLabels: Mapping[LabelKey, LabelValue] = Field(default_factory=dict)
    matchExpressions: tuple[Expression, ...] = ()


class NodeRequirement(Spec):
    """One condition of a node selector, which knows ``Gt`` and ``Lt`` too."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    @property
    def needs(self) -> str:
        """What `values` have to be for this operator; empty where they are so, or where there is no such operator."""
        if self.operator in ("In", "NotIn") and not self.values:
            return "one value or more"
        if self.operator in ("Exists", "DoesNotExist") and self.values:
            return "no values"
        return "one value" if self.operator in ("Gt", "Lt") and len(self.values) != 1 else ""


class MatchExpression(NodeRequirement):
    """A condition for the labels of a node."""

    key: LabelKey

    def broken_rules(self) -> Iterator[BrokenRule]:
        """Yield an operator that there is not, and values that it cannot have."""
        if self.operator not in ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"):
            help = "write In, NotIn, Exists, DoesNotExist, Gt or Lt"
            yield broken(SELECTOR, f"there is no operator '{self.operator}' of node selectors", help, ("operator",))
        elif self.needs:
            yield broken(SELECTOR, f"{self.operator} has {self.needs}, not {len(self.values)}", "change 'values'")


class MatchField(NodeRequirement):
    """A condition for the name of a node."""

    def broken_rules(self) -> Iterator[BrokenRule]:
        """Yield another field than the name, another operator, and more than one name."""
        if self.key != "metadata.name":
            yield broken(SELECTOR, f"nodes are not selected by the field '{self.key}'", "write metadata.name", ("key",))
        if self.operator not in ("In", "NotIn"):
            yield broken(SELECTOR, f"a field has no operator '{self.operator}'", "write In or NotIn", ("operator",))
        elif len(self.values) != 1:
            yield broken(SELECTOR, f"{self.operator} has one name, not {len(self.values)}", "write a term per node")
        elif not _SUBDOMAIN.fullmatch(self.values[0]) or len(self.values[0]) > MOST_SUBDOMAIN:
            message = f"'{self.values[0]}' is no name of a node"
            yield broken(SELECTOR, message, "write small letters, digits, '-' and '.'", ("values", 0))


class NodeTerm(Spec):
    """Conditions that all hold; an empty term selects no node."""

    matchExpressions: tuple[MatchExpression, ...] = ()
    matchFields: tuple[MatchField, ...] = ()


class NodeSelector(Spec):
    """Which nodes: one of the terms holds."""

    nodeSelectorTerms: tuple[NodeTerm, ...]

    def broken_rules(self) -> Iterator[BrokenRule]:
        """Yield a selector without terms, and terms that select nothing."""
        if not self.nodeSelectorTerms:
            yield broken(SELECTOR, "a node selector has one term or more", "remove it to select all nodes")
        for index, term in enumerate(self.nodeSelectorTerms):
            if not term.matchExpressions and not term.matchFields:
                at = ("nodeSelectorTerms", index)
                help = "add matchExpressions"
                yield broken(SELECTOR, "an empty term selects no node", help, at, verdict="warn")
