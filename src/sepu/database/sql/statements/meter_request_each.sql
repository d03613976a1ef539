select at, outcome, period, unit_limit, committed, reserved, body
  from sepu.meter_request_each(
    %s::text[], %s::bytea[], %s::text[], %s::bytea[], %s::text[], %s::integer[], %s::bytea[]
)
