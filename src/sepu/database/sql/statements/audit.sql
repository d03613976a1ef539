-- name: audit
-- One statement has one snapshot. A charge writes its counter, result and events together, so this sees all or none.
-- Each table gives one row for each counter, and these rows are merged: null where a table has none. On Citus a join
-- would give each table its own snapshot; this is one task for each shard.
select count(*) as counters,
       coalesce(sum(results), 0)::bigint as results,
       coalesce(sum(committed), 0)::bigint as units,
       coalesce(
           json_agg(json_build_array(account_id, period, meter, committed, pruned, stored, dated, days,
                                     events, recorded, granted, grants, credited, credits, invalid))
               filter (where committed is null or committed <> pruned + coalesce(stored, 0)
                             or dated <> coalesce(days, 0) or dated > pruned
                             or events <> coalesce(recorded, 0) or committed < crossed
                             or granted <> coalesce(grants, 0) or credited <> coalesce(credits, 0)
                             or granted < 0 or credited not between 0 and committed
                             or invalid > 0),
           '[]') as differences
  from (select account_id, period, meter, max(committed) as committed, max(pruned) as pruned, max(dated) as dated,
               max(events) as events, max(granted) as granted, max(credited) as credited,
               max(results) as results, max(stored) as stored, max(days) as days,
               max(recorded) as recorded, max(crossed) as crossed, max(grants) as grants, max(credits) as credits,
               sum(invalid) as invalid
          from (select account_id, period, meter, committed, pruned, dated, events, granted, credited,
                       null::integer as results, null::bigint as stored, null::bigint as days,
                       null::bigint as recorded, null::integer as crossed, null::bigint as grants, null::bigint as credits,
                       case when pruned >= 0 and committed >= pruned and reserved >= 0 then 0 else 1 end as invalid
                  from sepu.usage
                 union all
                select account_id, period, meter, null, null, null, null, null, null,
                       count(*)::integer, sum(units), null, null, null, null, null,
                       count(*) filter (where units < 1)
                  from sepu.stored_result group by account_id, period, meter
                 union all
                select account_id, period, meter, null, null, null, null, null, null,
                       null, null, sum(units), null, null, null, null, 0
                  from sepu.usage_day group by account_id, period, meter
                 union all
                select account_id, period, meter, null, null, null, null, null, null,
                       null, null, null, count(*), max(committed), null, null,
                       count(*) filter (where committed > unit_limit
                                           or committed * 100::bigint < unit_limit * threshold::bigint)
                  from sepu.quota_event group by account_id, period, meter
                 union all
                select account_id, period, meter, null, null, null, null, null, null,
                       null, null, null, null, null,
                       coalesce(sum(units) filter (where kind = 'grant'), 0),
                       coalesce(sum(units) filter (where kind = 'credit'), 0), 0
                  from sepu.adjustment group by account_id, period, meter) side
         group by account_id, period, meter) counter

-- name: record_audit
insert into sepu.audit_run (audited_at, counters, results, differences)
values (now(), %(counters)s, %(results)s, %(differences)s)

-- name: last_audit
select audited_at, counters, results, differences from sepu.audit_run order by audited_at desc limit 1
