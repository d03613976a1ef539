-- name: count_exported
-- The accounts that were made before the month ended.
select count(*)
  from sepu.account where created_at < ((%(period)s || '-01')::timestamp + interval '1 month') at time zone 'UTC'

-- name: export_usage
-- One row for each account and meter that it used, or one without a meter. Status and plan are the current ones.
select a.account_id, a.external_id, a.name, a.status, a.plan_id, a.created_at,
       u.meter, u.committed, u.reserved, u.granted, u.credited
  from sepu.account_now a
  left join sepu.usage u on u.account_id = a.account_id and u.period = %(period)s
 where a.created_at < ((%(period)s || '-01')::timestamp + interval '1 month') at time zone 'UTC'
   and (%(account_id)s::text is null or a.account_id = %(account_id)s)
 order by a.account_id

-- name: read_allowances
select plan_id, allowed, since, units from sepu.plan_allowance order by since
