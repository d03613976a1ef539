-- The next accounts in the order of the primary key, after a given one.
select a.account_id, a.status, a.created_at, a.plan_id,
       coalesce(json_object_agg(l.meter, l.units) filter (where l.meter is not null), '{}') as limits,
       p.requests_per_minute
  from sepu.account a
  join sepu.plan p on p.plan_id = a.plan_id
  left join sepu.plan_limit l on l.plan_id = a.plan_id
 where a.account_id > %(after)s
 group by a.account_id, a.status, a.created_at, a.plan_id, p.requests_per_minute
 order by a.account_id
 limit %(limit)s
