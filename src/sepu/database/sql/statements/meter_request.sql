select outcome, period, unit_limit, committed, reserved, body
  from sepu.meter_request(%s, %s, %s, %s, %s, %s, %s)
