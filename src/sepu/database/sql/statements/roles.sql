-- name: has_role
select exists (select from pg_roles where rolname = %(role)s)

-- name: create_role
create role {role} login connection limit {connections}

-- name: grant_connect
grant connect on database {database} to {role}

-- name: read_owner
select pg_get_userbyid(nspowner), pg_has_role(nspowner, 'USAGE') from pg_namespace where nspname = 'sepu'

-- name: read_database
-- The database's name, and whether this session may grant rights on it.
select datname, pg_has_role(datdba, 'USAGE') from pg_database where datname = current_database()

-- name: grant_service
-- All that a service needs, and nothing else: to call what requests call, and to read the applied migrations.
grant usage on schema sepu to {role};
grant select on sepu.migration to {role};
grant execute on function sepu.probe, sepu.key_secret, sepu.broken_settings, sepu.nodes, sepu.node_state to {role};
grant execute on function sepu.admit, sepu.read_usage, sepu.meter_request to {role};
grant execute on function sepu.admit_each, sepu.read_usage_each, sepu.meter_request_each to {role}

-- name: grant_console
-- All that the console shows, and nothing else: no hash of a key, no idempotency key, no answer.
grant usage on schema sepu to {role};
grant select on sepu.migration, sepu.plan, sepu.plan_limit, sepu.plan_allowance, sepu.change, sepu.audit_run to {role};
grant select on sepu.account_now, sepu.usage, sepu.usage_day, sepu.adjustment to {role};
grant select (account_id, plan_id, erased_plan_id, status, created_at, expires_at, name, external_id) on sepu.account to {role};
grant select on sepu.quota_event, sepu.event_delivery to {role};
grant select (account_id, key_id, name, external_id, created_at, expires_at, revoked_at, used_until)
   on sepu.api_key to {role};
grant select (account_id, meter, units, period, created_at, key_id, request_id) on sepu.stored_result to {role}

-- name: grant_events
-- All that the delivery of events needs. It reads no key, no result and no body.
grant usage on schema sepu to {role};
grant select on sepu.migration, sepu.quota_event to {role};
grant select (account_id, external_id, name) on sepu.account to {role};
-- By column: a role that may update a whole table may also lock it, and charges that record an event would wait.
grant select, update (due_at, attempts, delivered_at, last_error) on sepu.event_delivery to {role}

-- name: read_granted_roles
-- The roles of each purpose: each was granted something that only its purpose calls (any version), reads or writes.
select distinct o.purpose, r.rolname
  from (select 'service' as purpose, 'EXECUTE' as privilege, proacl as granted, proowner as owner
          from pg_proc where pronamespace = 'sepu'::regnamespace and proname ~ '^meter_request(_v[0-9]+)?$'
         union all
        select 'console', 'SELECT', relacl, relowner from pg_class where oid = to_regclass('sepu.audit_run')
         union all
        select 'events', 'UPDATE', a.attacl, c.relowner from pg_attribute a join pg_class c on c.oid = a.attrelid
         where c.oid = to_regclass('sepu.event_delivery') and a.attname = 'attempts') o
 cross join aclexplode(o.granted) a
  join pg_roles r on r.oid = a.grantee
 where a.privilege_type = o.privilege and a.grantee <> o.owner

-- name: set_keepers
-- Until the transaction ends.
select set_config('sepu.keepers', %(keepers)s::text[]::text, true)

-- name: read_left_open
-- `may`: whether this session may run the statements. `by_superuser`: whether only a superuser may.
select o.what, o.grants, o.revoke, o.is_here,
       pg_has_role(o.owner, 'USAGE') as may, r.rolsuper as by_superuser
  from ({public}) o
  join pg_roles r on r.oid = o.owner

-- name: read_unbounded_roles
-- What roles with a purpose lack: bounds, and the way into this database. In the form of read_left_open, for a role each.
select r.rolname, f.what, f.value, f.needed, f.statement, true as is_here, p.is_superuser as may, f.by_superuser
  from unnest(%(roles)s::text[], %(connections)s::integer[]) as o (role, connections)
  join pg_roles r on r.rolname = o.role and not r.rolsuper
 cross join (select rolsuper as is_superuser from pg_roles where rolname = current_user) p
 cross join lateral (
       values ('connections', 'any number', o.connections::text, r.rolconnlimit < 0, false,
               'alter role ' || quote_ident(r.rolname) || ' connection limit ' || o.connections),
              ('temporary files', 'any size', %(files)s::text,
               current_setting('temp_file_limit') = '-1' and not exists (
                   select from pg_db_role_setting d cross join unnest(d.setconfig) as c (setting)
                    where d.setrole = r.oid and split_part(c.setting, '=', 1) = 'temp_file_limit'), true,
               'alter role ' || quote_ident(r.rolname) || ' set temp_file_limit = ' || quote_literal(%(files)s::text)),
              ('the database ' || quote_ident(current_database()), 'missing', 'granted',
               not has_database_privilege(r.oid, current_database(), 'CONNECT'), false,
               'grant connect on database ' || quote_ident(current_database()) || ' to ' || quote_ident(r.rolname))
       ) as f (what, value, needed, is_missing, by_superuser, statement)
 where f.is_missing
 order by r.rolname, f.what

-- name: read_lock_holders
-- Sessions that have held an advisory lock, or a thousand locks, for so long. A request's end with it, and the owner's
-- and a superuser's are operators' commands. A session's lock outlives its transactions: then the session's age counts.
select a.usename, a.pid, count(*), date_trunc('second', coalesce(a.xact_start, a.backend_start))::text,
       'select pg_terminate_backend(' || a.pid || ')'
  from pg_locks l
  join pg_stat_activity a on a.pid = l.pid
  join pg_roles r on r.oid = a.usesysid
  join pg_namespace n on n.nspname = 'sepu'
 where l.granted and not r.rolsuper and not pg_has_role(r.oid, n.nspowner, 'USAGE')
   and coalesce(a.xact_start, a.backend_start) < now() - make_interval(secs => %(seconds)s)
 group by a.usename, a.pid, a.xact_start, a.backend_start
having bool_or(l.locktype = 'advisory') or count(*) > 1000
 order by 1, 2
