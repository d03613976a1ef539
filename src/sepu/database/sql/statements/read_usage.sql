select outcome, plan_id, period, meter, unit_limit, committed, reserved
  from sepu.read_usage(%s, %s)
