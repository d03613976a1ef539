-- name: count_exported
-- The accounts that were made before the month was over, and the current month.
select count(*), to_char(now() at time zone 'UTC', 'YYYY-MM')
  from sepu.account where created_at < ((%(period)s || '-01')::timestamp + interval '1 month') at time zone 'UTC'

-- name: export_usage
-- A row for each account and meter that it used, or one without a meter. Status and plan are those of now.
select a.account_id, a.external_id, a.name, a.status, a.plan_id, u.meter, u.committed, u.reserved, u.granted, u.credited
  from sepu.account a
  left join sepu.usage u on u.account_id = a.account_id and u.period = %(period)s
 where a.created_at < ((%(period)s || '-01')::timestamp + interval '1 month') at time zone 'UTC'
   and (%(account_id)s::text is null or a.account_id = %(account_id)s)
 order by a.account_id

-- name: read_plan_limits
select plan_id, meter, units from sepu.plan_limit

-- name: read_account_moves
-- Since a month began.
select account_id, moved_at, from_plan, to_plan
  from sepu.account_move
 where moved_at >= (%(period)s || '-01')::timestamp at time zone 'UTC'
   and (%(account_id)s::text is null or account_id = %(account_id)s)
 order by account_id, moved_at

-- name: read_plan_changes
-- Since a month began.
select plan_id, meter, changed_at, from_units, to_units
  from sepu.plan_change
 where changed_at >= (%(period)s || '-01')::timestamp at time zone 'UTC'
 order by plan_id, meter, changed_at
