"""Queues mails with signed links in PostgreSQL, and uses the links.

A mail belongs to the transaction in which it is queued: it is sent if that commits, and only then.
"""

from mailroom_client.arguments import Mail, Request
from mailroom_client.calls import Redemption, Verdict
from mailroom_client.mailroom import AsyncMailroom, Mailroom

__all__ = ["AsyncMailroom", "Mail", "Mailroom", "Redemption", "Request", "Verdict"]
