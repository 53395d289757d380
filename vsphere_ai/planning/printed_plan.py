"""Documents of a plan as commands print it: of `plan`, and of `verify`, which shows how an estate differs."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Annotated, Any, ClassVar, Self

from pydantic import Field

from vsphere_ai.documents.findings import FindingDocument
from vsphere_ai.documents.outputs import OutputDocument
from vsphere_ai.documents.printed import PrintedDocument
from vsphere_ai.model.facts import About
from vsphere_ai.model.state import Target
from vsphere_ai.model.variables import VariableValue
from vsphere_ai.planning.document import Digest, ItemDocument, PlanDocument
from vsphere_ai.planning.planner import Plan


class PrintedPlan(PlanDocument):
    """A plan as `plan -o json` prints it."""

    printed_by: ClassVar = ("plan", "apply --dry-run")

    digest: Digest
    left_out: Annotated[tuple[Target, ...], Field(description="What `--limit` leaves out of the plan.")]
    outputs: dict[str, OutputDocument] = Field(default_factory=dict, description="Outputs by name.")


class DriftDocument(PrintedDocument):
    """What `verify` prints: the settings that a plan has, with what would change, and why it is not known of some."""

    printed_by: ClassVar = ("verify",)

    as_wanted: Annotated[bool, Field(description="Whether every setting could be read and is in the desired state.")]
    vcenter: About
    playbook: str
    items: tuple[ItemDocument, ...]
    problems: tuple[FindingDocument, ...]

    @classmethod
    def of(cls, plan: Plan) -> Self:
        """Return how an estate differs from a playbook, of the plan that would bring it back."""
        items, problems = tuple(map(ItemDocument.of, plan.items)), tuple(map(FindingDocument.of, plan.problems))
        as_wanted = not plan.problems and not plan.changed()
        return cls(as_wanted=as_wanted, vcenter=plan.about, playbook=plan.playbook, items=items, problems=problems)


def printed_plan(
    plan: PlanDocument,
    digest: str,
    variables: tuple[VariableValue, ...],
    left_out: Collection[Target],
    outputs: Mapping[str, OutputDocument],
) -> PrintedPlan:
    """Return a plan as it is printed. `left_out` are the playbook's targets that the limit leaves out."""
    more: dict[str, Any] = {n: v for n, v in (("variables", variables), ("outputs", outputs)) if v}
    own = {n: getattr(plan, n) for n in plan.model_fields_set}
    return PrintedPlan(**{**own, **more, "digest": digest, "left_out": tuple(sorted(left_out))})
