-- name: audit
-- One statement, so one snapshot: a charge writes its counter, its result and its events together, so all are seen or
-- none. Each side is read once, and aggregates are joined. What is stored, summed up or recorded without a counter is a
-- difference too, and the reverse.
select count(*) as counters,
       coalesce(sum(s.results), 0)::bigint as results,
       coalesce(
           json_agg(json_build_array(account_id, period, meter, u.committed, u.pruned, s.units, u.dated, d.units,
                                     u.events, e.events)
                    order by account_id, period, meter)
               filter (where u.committed is null or u.committed <> u.pruned + coalesce(s.units, 0)
                             or u.dated <> coalesce(d.units, 0) or u.dated > u.pruned
                             or u.events <> coalesce(e.events, 0) or u.committed < e.committed),
           '[]') as differences
  from sepu.usage u
  full join (select account_id, period, meter, count(*) as results, sum(units) as units
               from sepu.stored_result group by account_id, period, meter) s
 using (account_id, period, meter)
  full join (select account_id, period, meter, sum(units) as units
               from sepu.usage_day group by account_id, period, meter) d
 using (account_id, period, meter)
  full join (select account_id, period, meter, count(*) as events, max(committed) as committed
               from sepu.quota_event group by account_id, period, meter) e
 using (account_id, period, meter)

-- name: record_audit
insert into sepu.audit_run (audited_at, counters, results, differences)
values (now(), %(counters)s, %(results)s, %(differences)s)

-- name: last_audit
select audited_at, counters, results, differences from sepu.audit_run order by audited_at desc limit 1
