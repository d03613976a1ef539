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

-- name: set_plan
insert into sepu.plan (plan_id, requests_per_minute) values (%(plan_id)s, %(requests_per_minute)s)
on conflict (plan_id) do update set requests_per_minute = excluded.requests_per_minute

-- name: set_plan_limit
insert into sepu.plan_limit (plan_id, meter, units) values (%(plan_id)s, %(meter)s, %(units)s)
on conflict (plan_id, meter) do update set units = excluded.units

-- name: set_plan_thresholds
update sepu.plan_limit set thresholds = %(thresholds)s::bigint[] where plan_id = %(plan_id)s

-- name: keep_allowance
-- Null units mean that the plan is deleted. This record is the latest, even if the clock was set back or this command
-- waited for another.
insert into sepu.plan_allowance (plan_id, allowed, since, units)
select %(plan_id)s, %(allowed)s, greatest(now(), max(since) + interval '1 microsecond'), %(units)s
  from sepu.plan_allowance
 where plan_id = %(plan_id)s and allowed = %(allowed)s

-- name: plan_is_used
select exists (select 1 from sepu.account where plan_id = %(plan_id)s)

-- name: delete_plan_limits
delete from sepu.plan_limit where plan_id = %(plan_id)s

-- name: delete_plan
delete from sepu.plan where plan_id = %(plan_id)s
