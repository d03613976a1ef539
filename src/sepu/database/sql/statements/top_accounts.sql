-- The accounts that used so much of a limit this month, the nearest to their limit first.
select a.account_id, a.external_id, a.name, a.status, a.plan_id, u.period, u.meter, l.units, u.committed, u.reserved
  from sepu.usage u
  join sepu.account a on a.account_id = u.account_id
  join sepu.plan_limit l on l.plan_id = a.plan_id and l.meter = u.meter
 where u.period = to_char(now() at time zone 'UTC', 'YYYY-MM') and u.committed + u.reserved > 0
   and (u.committed::bigint + u.reserved) * 100 >= l.units::bigint * %(percent)s
 order by (u.committed::float8 + u.reserved) / greatest(l.units, 1) desc, a.account_id, u.meter
 limit %(limit)s
