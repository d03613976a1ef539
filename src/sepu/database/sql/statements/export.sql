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

-- name: list_running
-- Other sessions' transactions on this node that began before the month ended, or whose start this role may not see.
select string_agg(distinct format('%%s of process %%s', r.id, r.pid), ', ')
  from (select l.virtualtransaction as id, a.pid::text as pid
          from pg_stat_activity a
          join pg_locks l on l.pid = a.pid and l.locktype = 'virtualxid' and l.mode = 'ExclusiveLock'
         where a.datname = current_database() and a.pid <> pg_backend_pid() and a.usesysid is not null
           and (a.xact_start is null
                or a.xact_start < ((%(period)s || '-01')::timestamp + interval '1 month') at time zone 'UTC')
         union all
        select gid, 'none: it is prepared' from pg_prepared_xacts where database = current_database()) r

-- name: list_running_on_all_nodes
-- The same on each node of a Citus cluster; `statement` is its text.
select case when success then nullif(result, '') else format('those of node %%s, which does not answer', nodeid) end
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
