-- All that the console shows, and nothing else: no hash of a key, no idempotency key, no answer.
grant usage on schema sepu to {role};
grant select on sepu.migration, sepu.plan, sepu.plan_limit, sepu.plan_change, sepu.audit_run to {role};
grant select on sepu.account, sepu.account_move, sepu.usage, sepu.usage_day to {role};
grant select on sepu.quota_event, sepu.event_delivery to {role};
grant select (account_id, key_id, name, external_id, created_at, expires_at, revoked_at, used_until)
   on sepu.api_key to {role};
grant select (account_id, meter, units, period, created_at, key_id) on sepu.stored_result to {role}
