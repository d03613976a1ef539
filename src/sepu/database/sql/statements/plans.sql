-- name: list_plans
select p.plan_id, coalesce(json_object_agg(l.meter, l.units) filter (where l.meter is not null), '{}') as limits,
       p.requests_per_minute, coalesce(min(l.thresholds), '{}') as thresholds
  from sepu.plan p
  left join sepu.plan_limit l on l.plan_id = p.plan_id
 where %(plan_id)s::text is null or p.plan_id = %(plan_id)s
 group by p.plan_id, p.requests_per_minute
 order by p.plan_id
 limit %(limit)s offset %(skip)s

-- name: count_accounts_of_plans
select plan_id, count(*) from sepu.account
 where plan_id = any (%(plan_ids)s)
 group by plan_id
