select at, outcome, plan_id, period, meter, unit_limit, committed, reserved
  from sepu.read_usage_each(%s::text[], %s::bytea[])
