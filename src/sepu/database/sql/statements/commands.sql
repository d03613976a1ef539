-- name: probe
-- Also returns what may have changed: behind a pooler the session may be in another database, with another key secret
-- and other settings; a reload also changes settings.
select applied, sepu.key_secret(), sepu.broken_settings(), sepu.nodes() from sepu.probe()

-- name: look_at_node
-- On a Citus coordinator. Connects anew to another node, as the current role, and returns the value of a query there, or
-- false and an error. In the query, the placeholders of `format` are this instant and a role.
select r.success, r.result
  from pg_catalog.master_run_on_worker(
           array[%s::text], array[%s::integer], array[format(%s::text, now(), %s::text)], false) r

-- name: query_state
select sepu.node_state(%1$L)

-- name: query_open_rights
select coalesce(json_agg(json_build_array(o.what, o.revoke is not null)), '[]') from ({public}) o

-- name: query_login
select true

-- name: query_connect
select has_database_privilege(%2$L, current_database(), 'connect')

-- name: admit
select outcome from sepu.admit(%s, %s)

-- name: admit_batch
select at, outcome from sepu.admit_batch(%s::text[], %s::bytea[])

-- name: read_usage
select outcome, plan_id, period, meter, unit_limit, committed, reserved
  from sepu.read_usage(%s, %s)

-- name: read_usage_batch
select at, outcome, plan_id, period, meter, unit_limit, committed, reserved
  from sepu.read_usage_batch(%s::text[], %s::bytea[])

-- name: meter_request
select outcome, period, unit_limit, committed, reserved, body
  from sepu.meter_request(%s, %s, %s, %s, %s, %s, %s, %s::uuid)

-- name: meter_request_batch
select at, outcome, period, unit_limit, committed, reserved, body
  from sepu.meter_request_batch(
    %s::text[], %s::bytea[], %s::text[], %s::bytea[], %s::text[], %s::integer[], %s::bytea[],
    %s::uuid[]
)
