"""Programs that give the addresses of pools: asked before a ledger is written, under the same lock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from vsphere_ai.addresses.external import keys_dropped, leased_in, released_in, request_document
from vsphere_ai.addresses.leasing import wanted_keys
from vsphere_ai.addresses.request import PoolSettings
from vsphere_ai.connect.address_program import ProgramCall, ask
from vsphere_ai.errors import StepFailed
from vsphere_ai.security.credentials import fetch

if TYPE_CHECKING:
    from vsphere_ai.addresses.holding import AddressLedger
    from vsphere_ai.addresses.pool import Backend
    from vsphere_ai.addresses.request import SetRequest
    from vsphere_ai.app.estate.address_reading import RecordedLeases
    from vsphere_ai.app.estate.connection import EstateConnection
    from vsphere_ai.app.estate.scope import EstateScope
    from vsphere_ai.model.names.networks import AddressRange

_CORRECT = "correct the program; it is asked the same again when the plan is applied again"


def with_answers_of_programs(scope: EstateScope, found: RecordedLeases, requests: Sequence[SetRequest]) -> PoolSettings:
    """Return the terms with what programs give for VMs that hold nothing of their pools yet.

    `StepFailed` for an answer that cannot be used, `OutcomeUnknown` when a program does not end in time: what it has
    given it gives again for the same keys.
    """
    answers: dict[str, AddressRange] = {}
    for name, keys in wanted_keys(found.ledger, found.terms, requests).items():
        pool = found.terms.pools[name]
        if pool.backend is not None:
            answer = ask(_program(scope, pool.backend, name), request_document("lease", name, pool, keys))
            try:
                answers |= leased_in(answer, pool, keys)
            except ValueError as error:
                raise _unusable(name, "lease", error) from None
    return replace(found.terms, answers=answers)


def release_at_programs(
    scope: EstateScope, connection: EstateConnection, before: AddressLedger, after: AddressLedger
) -> None:
    """Give back to programs what a ledger does not hold any more; do that before the ledger is written."""
    pools = scope.inventory.pools
    terms = PoolSettings(pools, 0, vcenter=connection.vcenter.about.instance)
    for name, keys in keys_dropped(before, after, terms).items():
        pool = pools[name]
        if pool.backend is not None:
            answer = ask(_program(scope, pool.backend, name), request_document("release", name, pool, keys))
            try:
                released_in(answer, keys)
            except ValueError as error:
                raise _unusable(name, "release", error) from None


def _program(scope: EstateScope, backend: Backend, name: str) -> ProgramCall:
    base = scope.inventory.base
    env = {k: fetch(v, base, purpose=f"variable {k} of pool {name}").reveal() for k, v in backend.env.items()}
    return ProgramCall(backend.exec, base, env, backend.timeout)


def _unusable(name: str, what: str, error: ValueError) -> StepFailed:
    reason = str(error).replace("\n", ": ")
    text = f"what the program of pool '{name}' answered to '{what}' cannot be used: {reason}"
    return StepFailed(text, _CORRECT, rule="addresses.backend-answer")
