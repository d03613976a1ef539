-- name: limit_lock_waits
-- Until the transaction ends; and if its client is silent, it ends by itself, because charges wait for what it locked.
select set_config('lock_timeout', %(milliseconds)s, true),
       set_config('idle_in_transaction_session_timeout', %(milliseconds)s, true)

-- name: read_month_and_limit
-- By the database's clock, and of the plan that the account is on.
select to_char(now() at time zone 'UTC', 'YYYY-MM') as month, l.units
  from sepu.plan_limit l
 where l.plan_id = %(plan_id)s and l.meter = %(meter)s

-- name: adjust_usage
select outcome, lowest, highest
  from sepu.adjust_usage(
    %(account_id)s, %(adjustment_id)s, %(kind)s, %(period)s, %(meter)s, %(units)s, %(plan_limit)s,
    %(operator)s, session_user::text, %(reason)s)

-- name: list_adjustments
-- Oldest first, and only the latest ones if so many are given. A filter that is null lets all pass. Each part
-- names the account: Citus then asks its worker only.
with latest as (
    select account_id, adjustment_id, kind, period, meter, units, adjusted_at, operator, database_role, reason
      from sepu.adjustment
     where (%(kind)s::text is null or kind = %(kind)s)
       and (%(account_id)s::text is null or account_id = %(account_id)s)
       and (%(period)s::text is null or period = %(period)s)
       and (%(adjustment_id)s::uuid is null or adjustment_id = %(adjustment_id)s)
     order by adjusted_at desc, account_id desc, adjustment_id desc
     limit %(latest)s offset %(skip)s
)
select l.adjustment_id::text, l.account_id, a.external_id, a.name, l.kind, l.period, l.meter, l.units, l.reason,
       l.adjusted_at, l.operator, l.database_role
  from latest l
  join sepu.account a on a.account_id = l.account_id
 where %(account_id)s::text is null or a.account_id = %(account_id)s
 order by l.adjusted_at, l.account_id, l.adjustment_id
