-- name: list_plans
select p.plan_id, coalesce(json_object_agg(l.meter, l.units) filter (where l.meter is not null), '{}') as limits,
       p.requests_per_minute, coalesce(min(l.thresholds), '{}') as thresholds, coalesce(a.accounts, 0) as accounts
  from sepu.plan p
  left join sepu.plan_limit l on l.plan_id = p.plan_id
  left join (select plan_id, count(*) as accounts from sepu.account group by plan_id) a on a.plan_id = p.plan_id
 where %(plan_id)s::text is null or p.plan_id = %(plan_id)s
 group by p.plan_id, p.requests_per_minute, a.accounts
 order by p.plan_id

-- name: lock_plan
-- One change of a plan at a time. Requests read it meanwhile.
select requests_per_minute from sepu.plan where plan_id = %(plan_id)s for no key update

-- name: record_rate_change
-- Before the change, as record_plan_change. The abuse limit has its own name in place of a meter's.
insert into sepu.plan_change (plan_id, meter, changed_at, from_units, to_units)
select p.plan_id, 'requests_per_minute', now(), p.requests_per_minute, %(requests_per_minute)s
  from sepu.plan p
 where p.plan_id = %(plan_id)s and p.requests_per_minute <> %(requests_per_minute)s
on conflict (plan_id, meter, changed_at) do update set to_units = excluded.to_units

-- name: record_plan_change
-- Before the change. A limit that stays is none, and a meter that had none is not one either.
insert into sepu.plan_change (plan_id, meter, changed_at, from_units, to_units)
select l.plan_id, l.meter, now(), l.units, %(units)s
  from sepu.plan_limit l
 where l.plan_id = %(plan_id)s and l.meter = %(meter)s and l.units <> %(units)s
on conflict (plan_id, meter, changed_at) do update set to_units = excluded.to_units

-- name: set_plan
insert into sepu.plan (plan_id, requests_per_minute) values (%(plan_id)s, %(requests_per_minute)s)
on conflict (plan_id) do update set requests_per_minute = excluded.requests_per_minute

-- name: set_plan_limit
insert into sepu.plan_limit (plan_id, meter, units) values (%(plan_id)s, %(meter)s, %(units)s)
on conflict (plan_id, meter) do update set units = excluded.units

-- name: set_plan_thresholds
update sepu.plan_limit set thresholds = %(thresholds)s::bigint[] where plan_id = %(plan_id)s

-- name: plan_is_used
select exists (select from sepu.account where plan_id = %(plan_id)s)

-- name: plan_was_used
select exists (select from sepu.account_move where %(plan_id)s in (from_plan, to_plan))

-- name: delete_plan_changes
delete from sepu.plan_change where plan_id = %(plan_id)s

-- name: delete_plan_limits
delete from sepu.plan_limit where plan_id = %(plan_id)s

-- name: delete_plan
delete from sepu.plan where plan_id = %(plan_id)s
