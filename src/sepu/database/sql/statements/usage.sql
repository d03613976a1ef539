-- name: show_usage
-- One row for each meter.
select a.external_id, a.name, a.status, a.plan_id, to_char(now() at time zone 'UTC', 'YYYY-MM') as period,
       l.meter, l.units::bigint + coalesce(u.granted, 0) as unit_limit,
       coalesce(u.committed, 0) as committed, coalesce(u.reserved, 0) as reserved,
       coalesce(u.granted, 0) as granted, coalesce(u.credited, 0) as credited
  from sepu.account_now a
  left join sepu.plan_limit l on l.plan_id = a.plan_id
  left join sepu.usage u on u.account_id = a.account_id and u.meter = l.meter
        and u.period = to_char(now() at time zone 'UTC', 'YYYY-MM')
 where a.account_id = %(account_id)s

-- name: read_now
select now()

-- name: read_today
select (now() at time zone 'UTC')::date

-- name: usage_by_month
select period, meter, sum(committed)::bigint as units
  from sepu.usage
 where committed > 0 and (%(account_id)s::text is null or account_id = %(account_id)s)
 group by period, meter
 order by period

-- name: usage_in_month
-- A month by day and, for one account, by key: stored results, the daily sums of pruned ones, and usage of erased
-- accounts. A given day is also by hour, as far as its results are stored. One statement, so that results are read once
-- and a simultaneous prune cannot change the sums.
select (d.day at time zone 'UTC')::date as day, extract(hour from d.hour at time zone 'UTC')::integer as hour,
       case when %(account_id)s::text is not null then d.key_id end as key_id, d.meter, sum(d.units)::bigint as units
  from (select account_id, key_id, date_bin('1 day', created_at, 'epoch') as day,
               case when created_at >= %(day)s::timestamp at time zone 'UTC'
                     and created_at < (%(day)s::timestamp + interval '24 hours') at time zone 'UTC'
                    then date_bin('1 hour', created_at, 'epoch') end as hour, meter, units
          from sepu.stored_result
         where period = %(period)s and (%(account_id)s::text is null or account_id = %(account_id)s)
         union all
        select account_id, key_id, day::timestamp at time zone 'UTC', null, meter, units
          from sepu.usage_day
         where period = %(period)s and (%(account_id)s::text is null or account_id = %(account_id)s)
         union all
        select account_id, null, null, null, meter, pruned - dated
          from sepu.usage
         where period = %(period)s and pruned > dated
           and (%(account_id)s::text is null or account_id = %(account_id)s)) d
 group by d.day, d.hour, 3, d.meter

-- name: usage_of_two_days
-- Today, the whole of yesterday, and yesterday until this time of day.
select meter, coalesce(sum(units) filter (where created_at >= today), 0)::bigint as today,
       coalesce(sum(units) filter (where created_at < today), 0)::bigint as yesterday,
       coalesce(sum(units) filter (where created_at <= now() - interval '24 hours'), 0)::bigint as by_now
  from sepu.stored_result,
       (select date_trunc('day', now(), 'UTC') as today) t
 where created_at >= date_trunc('day', now(), 'UTC') - interval '24 hours'
 group by meter

-- name: top_accounts
-- The accounts that have used at least this share of a limit this month, those nearest to their limit first.
select a.account_id, a.external_id, a.name, a.status, a.plan_id,
       u.period, u.meter, l.units::bigint + u.granted as unit_limit, u.committed, u.reserved, u.granted, u.credited
  from sepu.usage u
  join sepu.account_now a on a.account_id = u.account_id
  join sepu.plan_limit l on l.plan_id = a.plan_id and l.meter = u.meter
 where u.period = to_char(now() at time zone 'UTC', 'YYYY-MM') and u.committed::bigint + u.reserved > 0
   and a.status <> 'erased'
   and (u.committed::bigint + u.reserved) * 100 >= (l.units::bigint + u.granted) * %(percent)s::bigint
 order by (u.committed::float8 + u.reserved) / greatest(l.units::bigint + u.granted, 1) desc, a.account_id, u.meter
 limit %(limit)s
