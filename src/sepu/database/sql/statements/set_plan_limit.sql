insert into sepu.plan_limit (plan_id, meter, units) values (%(plan_id)s, %(meter)s, %(units)s)
on conflict (plan_id, meter) do update set units = excluded.units
