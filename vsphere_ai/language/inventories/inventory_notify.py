"""Notifications of an inventory: section `notify:`, who is notified of the end of runs and of drift."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, ValidationInfo, model_validator

from vsphere_ai.language.inventories.inventory_fields import InventorySection, SecretReference, placed_reference
from vsphere_ai.model.names.webhook_url import program_words, webhook_url
from vsphere_ai.security.secret_ref import is_reference


def _command(text: str) -> str:
    program_words(text, "'command'")
    return text


def _webhook(text: str, info: ValidationInfo) -> str:
    if is_reference(text):
        return placed_reference(text, info, "URL")
    webhook_url(text, "'webhook'")
    return text


class NotifySettings(InventorySection):
    """Who is notified; each key is the default of the option ``--notify-`` of its name."""

    command: Annotated[str, AfterValidator(_command)] | None = None
    """A program with its arguments, started without a shell; the document is on its standard input."""
    webhook: Annotated[str, AfterValidator(_webhook)] | None = None
    """An https URL, or a reference to one that is secret; the document is the body of a POST."""
    secret: SecretReference | None = None
    """Reference to the key that signs what the webhook gets."""

    @model_validator(mode="after")
    def _whole(self) -> NotifySettings:
        if self.secret and not self.webhook:
            raise ValueError("'secret' signs what a webhook gets\ngive 'webhook', or remove 'secret'")
        if not (self.command or self.webhook):
            raise ValueError("'notify' contains no one to notify\ngive 'command', 'webhook' or both")
        return self
