-- A month by day or by key: what is stored, what was pruned by day, and what erased accounts used. One statement, so a
-- prune beside it takes nothing away.
select case when %(by)s = 'day' then to_char(d.day, 'YYYY-MM-DD') else d.key_id end as part,
       d.meter, sum(d.units)::bigint as units
  from (select account_id, key_id, (created_at at time zone 'UTC')::date as day, meter, units
          from sepu.stored_result where period = %(period)s
         union all
        select account_id, key_id, day, meter, units
          from sepu.usage_day where period = %(period)s
         union all
        select account_id, null, null, meter, pruned - dated
          from sepu.usage where period = %(period)s and pruned > dated) d
 where %(account_id)s::text is null or d.account_id = %(account_id)s
 group by 1, 2
 order by 1 nulls first
