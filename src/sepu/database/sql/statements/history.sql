-- name: lock_account_state
-- Allows one change at a time to an account and its keys, even if the account is erased.
select from sepu.account where account_id = %(account_id)s for no key update

-- name: lock_plan_state
-- Allows one change at a time to a plan, even one being created. Requests can still read it.
select pg_advisory_xact_lock(hashtext('sepu.plan'), hashtext(%(subject)s))

-- name: read_account_state
-- Includes the plan's limits, so that the record of a move to another plan says what changed.
select a.account_id as subject, p.plan_id as "planId", a.status, a.name, a.external_id as "externalId",
       a.expires_at as "expiresAt", p.requests_per_minute as "requestsPerMinute",
       coalesce(json_object_agg(l.meter, l.units) filter (where l.meter is not null), '{}') as limits
  from sepu.account a
  join sepu.plan p on p.plan_id = coalesce(a.plan_id, a.erased_plan_id)
  left join sepu.plan_limit l on l.plan_id = p.plan_id
 where a.account_id = %(account_id)s
 group by a.account_id, p.plan_id, a.status, a.name, a.external_id, a.expires_at, p.requests_per_minute

-- name: read_key_state
-- For one key or for all.
select key_id as subject, name, external_id as "externalId", expires_at as "expiresAt", revoked_at as "revokedAt"
  from sepu.api_key
 where account_id = %(account_id)s and (%(subject)s::text is null or key_id = %(subject)s)
 order by created_at, key_id

-- name: read_plan_state
select p.plan_id as subject, p.requests_per_minute as "requestsPerMinute",
       coalesce(json_object_agg(l.meter, l.units) filter (where l.meter is not null), '{}') as limits,
       min(l.thresholds) as thresholds
  from sepu.plan p left join sepu.plan_limit l on l.plan_id = p.plan_id
 where p.plan_id = %(subject)s
 group by p.plan_id, p.requests_per_minute

-- name: read_delivery_state
-- For one event, found by its primary key.
select concat_ws(':', account_id, period, meter, threshold, unit_limit) as subject, attempts,
       case when delivered_at is not null then 'delivered' when due_at is not null then 'due' else 'dead' end as state
  from sepu.event_delivery
 where account_id = %(account_id)s and concat_ws(':', account_id, period, meter, threshold, unit_limit) = %(subject)s

-- name: record_change
insert into sepu.change (account_id, number, role, operator, action, subject, before, after)
values (%(account_id)s, %(number)s, session_user, %(operator)s, %(action)s, %(subject)s,
        %(before)s::jsonb, %(after)s::jsonb)

-- name: forget_names
update sepu.change
   set before = before - array['name', 'externalId', 'reason'], after = after - array['name', 'externalId', 'reason']
 where account_id = %(account_id)s

-- name: read_moves
-- The plans that accounts left and joined since the beginning of a month.
select account_id, changed_at, before ->> 'planId', after ->> 'planId'
  from sepu.change
 where account_id <> '' and before ? 'planId'
   and changed_at >= (%(period)s || '-01')::timestamp at time zone 'UTC'
   and (%(account_id)s::text is null or account_id = %(account_id)s)
 order by account_id, changed_at, number

-- name: read_plans_had
-- The plans that an account had, and since when. Latest first.
select changed_at, after ->> 'planId' from sepu.change
 where account_id = %(account_id)s and after ? 'planId'
 order by changed_at desc, number desc

-- name: list_changes
select changed_at, nullif(account_id, ''), action, subject, operator, role, before, after
  from sepu.change
 where (%(account_id)s::text is null or account_id = %(account_id)s)
   and (%(plans)s::text[] is null or subject = any (%(plans)s) and action like 'plan.%%')
   and (%(since)s::timestamptz is null or changed_at >= %(since)s)
   and (%(until)s::timestamptz is null or changed_at < %(until)s)
 order by changed_at desc, number desc
 limit %(limit)s
