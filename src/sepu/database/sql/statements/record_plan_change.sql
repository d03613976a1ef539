-- Before the change. A limit that stays is none, and a meter that had none is not one either.
insert into sepu.plan_change (plan_id, meter, changed_at, from_units, to_units)
select l.plan_id, l.meter, now(), l.units, %(units)s
  from sepu.plan_limit l
 where l.plan_id = %(plan_id)s and l.meter = %(meter)s and l.units <> %(units)s
on conflict (plan_id, meter, changed_at) do update set to_units = excluded.to_units
