"""Request for notifications: who gets them, as options or an inventory have it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class NotifyRequest:
    """Who is notified: a program with its arguments, the URL of a webhook, or both.

    `notify_webhook` is a URL or a reference to a secret (``env:NAME`` …), for URLs that hold a token. `notify_secret`
    is the reference of the key with which the body is signed. `webhook_inventory` and `secret_inventory` are the
    inventories that contain these two; None: options do. Programs behind ``cmd:`` run in the folder of that inventory.
    """

    notify_command: str = ""
    notify_webhook: str = ""
    notify_secret: str = ""
    webhook_inventory: Path | None = None
    secret_inventory: Path | None = None

    def over(self, other: NotifyRequest) -> NotifyRequest:
        """Return this request with what it lacks from another one, such as options over an inventory.

        A secret signs what its own webhook gets: with another webhook, that of `other` is not taken.
        """
        webhook, secret = (self, self) if self.notify_webhook else (other, self if self.notify_secret else other)
        return NotifyRequest(
            self.notify_command or other.notify_command,
            webhook.notify_webhook,
            secret.notify_secret,
            webhook.webhook_inventory,
            secret.secret_inventory,
        )
