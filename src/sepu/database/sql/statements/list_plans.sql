select p.plan_id, coalesce(json_object_agg(l.meter, l.units) filter (where l.meter is not null), '{}') as limits,
       p.requests_per_minute, coalesce(min(l.thresholds), '{}') as thresholds, coalesce(a.accounts, 0) as accounts
  from sepu.plan p
  left join sepu.plan_limit l on l.plan_id = p.plan_id
  left join (select plan_id, count(*) as accounts from sepu.account group by plan_id) a on a.plan_id = p.plan_id
 where %(plan_id)s::text is null or p.plan_id = %(plan_id)s
 group by p.plan_id, p.requests_per_minute, a.accounts
 order by p.plan_id
