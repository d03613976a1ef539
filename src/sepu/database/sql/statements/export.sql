-- name: count_exported
-- The accounts of export_usage.
select count(*)
  from sepu.account a
 where a.created_at < ((%(period)s || '-01')::timestamp + interval '1 month') at time zone 'UTC'
   and (a.status <> 'erased'
        or exists (select from sepu.usage u
                    where u.account_id = a.account_id and u.period = %(period)s and u.committed <> 0))

-- name: month_has_ended
select now() >= ((%(period)s || '-01')::timestamp + interval '1 month') at time zone 'UTC'

-- name: list_unfinished_on_all_nodes
-- list_unfinished on each node of a Citus cluster; `statement` is its text.
select case when success then nullif(result, '') else format('those of node %%s: it does not answer', nodeid) end
  from run_command_on_all_nodes(%(statement)s)

-- name: export_usage
-- One row for each account and meter that it used, or one without a meter. Status and plan are the current ones. An
-- erased account is only in the months that it used.
select a.account_id, a.external_id, a.name, a.status, a.plan_id, a.created_at,
       u.meter, u.committed, u.reserved, u.granted, u.credited
  from sepu.account_now a
  left join sepu.usage u on u.account_id = a.account_id and u.period = %(period)s
 where a.created_at < ((%(period)s || '-01')::timestamp + interval '1 month') at time zone 'UTC'
   and (%(account_id)s::text is null or a.account_id = %(account_id)s)
   and (a.status <> 'erased'
        or exists (select from sepu.usage b
                    where b.account_id = a.account_id and b.period = %(period)s and b.committed <> 0
                      and (%(account_id)s::text is null or b.account_id = %(account_id)s)))
 order by a.account_id

-- name: read_allowances
select plan_id, allowed, since, units from sepu.plan_allowance order by since

-- name: list_unfinished
select sepu.unfinished(%(period)s)
