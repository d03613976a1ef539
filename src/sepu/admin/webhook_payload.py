"""Makes the bodies of webhooks, by the conventions of Standard Webhooks."""

from datetime import UTC, datetime

from sepu.admin.events import Event


def payload(event: Event) -> dict[str, object]:
    """Returns the body of an event's webhook."""
    return {
        "type": "quota.threshold_crossed",
        "timestamp": f"{event.crossed_at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}",
        "data": {
            "eventId": event.event_id,
            "accountId": event.account_id,
            "externalId": event.external_id,
            "period": event.period,
            "meter": event.meter,
            "threshold": event.threshold,
            "limit": event.limit,
            "committed": event.committed,
        },
    }


def trial() -> dict[str, object]:
    """Returns the body of a test webhook, which reports no event."""
    return {"type": "endpoint.tried", "timestamp": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}", "data": {}}
