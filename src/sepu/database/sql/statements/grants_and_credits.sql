-- name: limit_lock_waits
-- Until the transaction ends. If its client goes silent, it ends by itself, because charges wait for its locks.
select set_config('lock_timeout', %(milliseconds)s, true),
       set_config('idle_in_transaction_session_timeout', %(milliseconds)s, true)

-- name: list_adjustments
-- Oldest first; a limit keeps only the latest ones. A null filter lets all pass. Each part
-- names the account, so that Citus asks only its worker.
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

-- name: list_range_charges
-- What one account or all were charged in a range of time, a row for each month and meter, and how much of it can still
-- be credited. A credit's id is made of what the credit is for, so that a repetition is the same credit. Each part
-- names the account, so that Citus asks only its worker.
select c.credit_id::text, c.account_id, a.external_id, a.name, c.period, c.meter, c.units as charged,
       coalesce(d.units, least(c.units, u.committed - u.credited)) as units,
       case when d.units is not null then 'repeated' when u.committed > u.credited then 'due' else 'nothing_left' end
  from (select account_id, period, meter, sum(units)::integer as units,
               encode(substr(sha256(convert_to(account_id || ' ' || period || ' ' || meter || ' ' || %(range)s, 'UTF8')),
                             1, 16), 'hex')::uuid as credit_id
          from sepu.stored_result
         where created_at >= %(since)s and created_at < %(until)s
           and (%(account_id)s::text is null or account_id = %(account_id)s)
         group by account_id, period, meter) c
  join sepu.account a on a.account_id = c.account_id
  join sepu.usage u on u.account_id = c.account_id and u.period = c.period and u.meter = c.meter
  left join sepu.adjustment d on d.account_id = c.account_id and d.adjustment_id = c.credit_id
 where %(account_id)s::text is null or a.account_id = %(account_id)s
 order by c.account_id, c.period, c.meter

-- name: sum_pruned_of_days
-- The units of a range's UTC days whose results are deleted. It is unknown which were charged within the range.
select coalesce(sum(units), 0)::bigint
  from sepu.usage_day
 where day >= (%(since)s::timestamptz at time zone 'UTC')::date and day < %(until)s::timestamptz at time zone 'UTC'
   and (%(account_id)s::text is null or account_id = %(account_id)s)

-- name: adjust_usage
select outcome, period, month, plan_id, lowest, highest
  from sepu.adjust_usage(
    %(operator)s, %(action)s, %(account_id)s, %(adjustment_id)s, %(period)s, %(meter)s, %(units)s, %(reason)s)
