-- A row for each account and meter. Status, plan and limits are those of now: the ledger keeps no history of them.
select a.account_id, a.external_id, a.name, a.status, a.plan_id,
       l.meter, l.units, coalesce(u.committed, 0) as committed, coalesce(u.reserved, 0) as reserved
  from sepu.account a
  left join sepu.plan_limit l on l.plan_id = a.plan_id
  left join sepu.usage u on u.account_id = a.account_id and u.period = %(period)s and u.meter = l.meter
 where a.created_at < ((%(period)s || '-01')::timestamp + interval '1 month') at time zone 'UTC'
 order by a.account_id
