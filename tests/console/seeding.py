"""A sample ledger: named customers, three months of usage, keys, and a change of plan."""

import random
from datetime import UTC, datetime, timedelta

import psycopg
from tests.charging import charge

from sepu.admin import accounts
from sepu.admin.audit import audit, record_audit
from sepu.admin.grants_and_credits import adjust_usage
from sepu.admin.keys import change_key, issue_key, revoke_key
from sepu.admin.naming import find_account
from sepu.admin.plans import list_plans, set_plan

# Name, external id, plan, and monthly share of its colour limit used.
CUSTOMERS = (
    ("Silk & Co.", "cus_8812", "standard", 0.97),
    ("Tea House on the Lake", "cus_9001", "gold", 0.41),
    ("Brush and Ink", "cus_9044", "standard", 0.86),
    ("Porcelain Works", "cus_9102", "gold", 0.83),
    ("Lantern Studio", "cus_9130", "standard", 0.12),
    ("Paper Kites", "cus_9177", "standard", 0.55),
    ("Bamboo Furniture", "cus_9201", "standard", 0.0),
    ("四季染坊", "cus_9233", "gold", 0.22),
)


def seed(connection: psycopg.Connection) -> None:
    """Fills an empty ledger as if customers had used it until now."""
    now = datetime.now(UTC)
    chance = random.Random(161)
    set_plan(connection, "gold", {"color_match": 15_000, "color_search": 10_000}, requests_per_minute=600)
    limits = {plan.plan_id: plan.limits for plan in list_plans(connection)}
    months = [now.replace(day=1)]
    for _ in range(2):
        months.insert(0, (months[0] - timedelta(days=1)).replace(day=1))
    for name, external_id, plan_id, share in CUSTOMERS:
        issued = accounts.create_account(connection, plan_id, name, external_id)
        change_key(connection, issued.key_id, "web shop")
        backend = issue_key(connection, issued.account_id, now + timedelta(days=90), "back end")
        for growth, month in zip((0.6, 0.8, 1), months, strict=True):
            days = [month + timedelta(days=number) for number in range(31)]
            days = [day for day in days if day <= now and day.month == month.month]
            weights = [chance.uniform(0.2, 1) * (0.4 if day.weekday() >= 5 else 1) for day in days]
            for meter, part in (("color_match", share), ("color_search", share / 2)):
                for day, weight in zip(days, weights, strict=True):
                    units = int(limits[plan_id][meter] * part * growth * weight / sum(weights))
                    api_key = chance.choice((issued, issued, backend)).api_key
                    if units:
                        charge(connection, api_key, f"{meter}-{day:%Y-%m-%d}", units, day, meter)
        made = months[0] - timedelta(days=20)
        connection.execute("update sepu.account set created_at = %s where account_id = %s", (made, issued.account_id))
        connection.execute("update sepu.api_key set created_at = %s where account_id = %s", (made, issued.account_id))
    revoke_key(connection, issue_key(connection, issued.account_id, name="old shop").key_id)
    set_plan(connection, "standard", {"color_match": 2100}, requests_per_minute=150)
    silk = find_account(connection, "cus_8812")
    adjust_usage(connection, "grant", silk, "color_match", 50, reason="Trade fair, ticket 4711")
    adjust_usage(connection, "credit", silk, "color_search", 20, reason="The outage of Monday")
    suspended = find_account(connection, "cus_9201")
    accounts.set_status(connection, suspended, "suspended")
    record_audit(connection, audit(connection))
