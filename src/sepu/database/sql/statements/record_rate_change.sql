-- Before the change, as record_plan_change. The abuse limit has its own name in place of a meter's.
insert into sepu.plan_change (plan_id, meter, changed_at, from_units, to_units)
select p.plan_id, 'requests_per_minute', now(), p.requests_per_minute, %(requests_per_minute)s
  from sepu.plan p
 where p.plan_id = %(plan_id)s and p.requests_per_minute <> %(requests_per_minute)s
on conflict (plan_id, meter, changed_at) do update set to_units = excluded.to_units
