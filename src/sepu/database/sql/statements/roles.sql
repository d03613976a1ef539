-- name: has_role
select exists (select from pg_roles where rolname = %(role)s)

-- name: create_role
create role {role} login

-- name: read_owner
select nspowner::regrole::text, pg_has_role(nspowner, 'USAGE') from pg_namespace where nspname = 'sepu'

-- name: grant_service
-- All that a service needs, and nothing else: to call what requests call, and to read the applied migrations.
grant usage on schema sepu to {role};
grant select on sepu.migration to {role};
grant execute on function sepu.probe, sepu.key_secret, sepu.broken_settings to {role};
grant execute on function sepu.admit, sepu.read_usage, sepu.meter_request to {role};
grant execute on function sepu.admit_each, sepu.read_usage_each, sepu.meter_request_each to {role}

-- name: grant_console
-- All that the console shows, and nothing else: no hash of a key, no idempotency key, no answer.
grant usage on schema sepu to {role};
grant select on sepu.migration, sepu.plan, sepu.plan_limit, sepu.plan_allowance, sepu.change, sepu.audit_run to {role};
grant select on sepu.account_now, sepu.usage, sepu.usage_day, sepu.adjustment to {role};
grant select (account_id, plan_id, status, created_at, expires_at, name, external_id) on sepu.account to {role};
grant select on sepu.quota_event, sepu.event_delivery to {role};
grant select (account_id, key_id, name, external_id, created_at, expires_at, revoked_at, used_until)
   on sepu.api_key to {role};
grant select (account_id, meter, units, period, created_at, key_id, request_id) on sepu.stored_result to {role}

-- name: grant_events
-- All that the delivery of events needs. It reads no key, no result and no body.
grant usage on schema sepu to {role};
grant select on sepu.migration, sepu.quota_event to {role};
grant select (account_id, external_id, name) on sepu.account to {role};
grant select, update on sepu.event_delivery to {role}

-- name: read_granted_roles
-- The roles of each purpose: each was granted something that only its purpose calls (any version), reads or writes.
select distinct o.purpose, r.rolname
  from (select 'service' as purpose, 'EXECUTE' as privilege, proacl as granted, proowner as owner
          from pg_proc where pronamespace = 'sepu'::regnamespace and proname ~ '^meter_request(_v[0-9]+)?$'
         union all
        select 'console', 'SELECT', relacl, relowner from pg_class where oid = to_regclass('sepu.audit_run')
         union all
        select 'events', 'UPDATE', relacl, relowner from pg_class where oid = to_regclass('sepu.event_delivery')) o
 cross join aclexplode(o.granted) a
  join pg_roles r on r.oid = a.grantee
 where a.privilege_type = o.privilege and a.grantee <> o.owner

-- name: read_left_open
-- What Postgres lets every role write by default: the statement that revokes it, and whether this session may run it.
select 'revoke temporary on database ' || quote_ident(d.datname) || ' from public' as statement,
       pg_has_role(d.datdba, 'USAGE') as may
  from pg_database d
 where d.datname = current_database() and has_database_privilege('public', d.oid, 'TEMPORARY')
 union all
select 'revoke create on schema public from public', pg_has_role(n.nspowner, 'USAGE')
  from pg_namespace n
 where n.nspname = 'public' and has_schema_privilege('public', n.oid, 'CREATE')
 union all
-- The functions for large objects and for messages in the WAL.
select 'revoke execute on function ' || string_agg(p.oid::regprocedure::text, ', ' order by p.oid) || ' from public',
       bool_and(pg_has_role(p.proowner, 'USAGE'))
  from pg_proc p
 where p.pronamespace = 'pg_catalog'::regnamespace
   and p.proname in ('lo_creat', 'lo_create', 'lo_from_bytea', 'pg_logical_emit_message')
   and has_function_privilege('public', p.oid, 'EXECUTE')
having count(*) > 0
