-- name: probe
-- Also returns what may have changed: behind a pooler the session may be in another database, with another key secret
-- and other settings; a reload also changes settings.
select applied, sepu.key_secret(), sepu.broken_settings() from sepu.probe()

-- name: admit
select outcome from sepu.admit(%s, %s)

-- name: admit_each
select at, outcome from sepu.admit_each(%s::text[], %s::bytea[])

-- name: read_usage
select outcome, plan_id, period, meter, unit_limit, committed, reserved
  from sepu.read_usage(%s, %s)

-- name: read_usage_each
select at, outcome, plan_id, period, meter, unit_limit, committed, reserved
  from sepu.read_usage_each(%s::text[], %s::bytea[])

-- name: meter_request
select outcome, period, unit_limit, committed, reserved, body
  from sepu.meter_request(%s, %s, %s, %s, %s, %s, %s, %s::uuid)

-- name: meter_request_each
select at, outcome, period, unit_limit, committed, reserved, body
  from sepu.meter_request_each(
    %s::text[], %s::bytea[], %s::text[], %s::bytea[], %s::text[], %s::integer[], %s::bytea[],
    %s::uuid[]
)
