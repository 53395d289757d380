"""Answers of operators that an acceptance needs: which rules have none, and the file that keeps them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path

from vsphere_ai.compat.pillars.attested import QUESTIONS
from vsphere_ai.language.attestation import attestations_text, load_attestations
from vsphere_ai.model.records.assessment import Attestation
from vsphere_ai.security.files import write_output


def unanswered_questions(path: Path | None) -> Mapping[str, str]:
    """Return the questions without an answer that holds today, by the id of their rule. `InputError`: a wrong file."""
    known = load_attestations(path, tuple(QUESTIONS)) if path is not None and path.exists() else {}
    valid = {rule for rule, answer in known.items() if answer.expires >= date.today()}
    return {rule: question for rule, (_, question) in QUESTIONS.items() if rule not in valid}


def keep_answers(path: Path, answers: Sequence[Attestation]) -> None:
    """Write answers into a file of attestations, in the place of earlier ones of the same rules."""
    known = dict(load_attestations(path, tuple(QUESTIONS))) if path.exists() else {}
    known |= {answer.rule: answer for answer in answers}
    questions = {rule: question for rule, (_, question) in QUESTIONS.items()}
    write_output(path, attestations_text(known.values(), questions))
