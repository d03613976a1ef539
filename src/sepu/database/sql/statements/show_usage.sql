-- A row a meter.
select a.external_id, a.name, a.status, a.plan_id, to_char(now() at time zone 'UTC', 'YYYY-MM') as period,
       l.meter, l.units, coalesce(u.committed, 0) as committed, coalesce(u.reserved, 0) as reserved
  from sepu.account a
  left join sepu.plan_limit l on l.plan_id = a.plan_id
  left join sepu.usage u on u.account_id = a.account_id and u.meter = l.meter
        and u.period = to_char(now() at time zone 'UTC', 'YYYY-MM')
 where a.account_id = %(account_id)s
