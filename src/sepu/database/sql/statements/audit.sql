-- name: audit
-- One statement, so one snapshot: a charge writes its counter, its result and its events together, so all are seen or
-- none. Each side is read once, and aggregates are joined. What is stored, summed up, recorded or adjusted without a counter is a
-- difference too, and the reverse.
select count(*) as counters,
       coalesce(sum(s.results), 0)::bigint as results,
       coalesce(
           json_agg(json_build_array(account_id, period, meter, u.committed, u.pruned, s.units, u.dated, d.units,
                                     u.events, e.events,
                                     u.granted, g.granted, u.credited, g.credited)
                    order by account_id, period, meter)
               filter (where u.committed is null or u.committed <> u.pruned + coalesce(s.units, 0)
                             or u.dated <> coalesce(d.units, 0) or u.dated > u.pruned
                             or u.events <> coalesce(e.events, 0) or u.committed < e.committed
                             or u.granted <> coalesce(g.granted, 0) or u.credited <> coalesce(g.credited, 0)
                             or u.granted < 0 or u.credited not between 0 and u.committed),
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
  full join (select account_id, period, meter, coalesce(sum(units) filter (where kind = 'grant'), 0) as granted,
                    coalesce(sum(units) filter (where kind = 'credit'), 0) as credited
               from sepu.adjustment group by account_id, period, meter) g
 using (account_id, period, meter)

-- name: record_audit
insert into sepu.audit_run (audited_at, counters, results, differences)
values (now(), %(counters)s, %(results)s, %(differences)s)

-- name: last_audit
select audited_at, counters, results, differences from sepu.audit_run order by audited_at desc limit 1
