-- Since a month began.
select plan_id, meter, changed_at, from_units, to_units
  from sepu.plan_change
 where changed_at >= (%(period)s || '-01')::timestamp at time zone 'UTC'
 order by plan_id, meter, changed_at
