-- name: has_role
select exists (select from pg_roles where rolname = %(role)s)

-- name: owns_schema
select pg_get_userbyid(nspowner) = %(role)s from pg_namespace where nspname = 'sepu'

-- name: create_role
create role {role} login connection limit {connections}

-- name: grant_connect
grant connect on database {database} to {role}

-- name: read_owner
select pg_get_userbyid(nspowner), pg_has_role(nspowner, 'USAGE') from pg_namespace where nspname = 'sepu'

-- name: read_database
-- The database's name, and whether this session may grant rights on it.
select datname, pg_has_role(datdba, 'USAGE') from pg_database where datname = current_database()

-- name: revoke_rights
-- All that a role may do in the schema, so that it then has one purpose and nothing else. A dump restored without its
-- rights (pg_dump --no-acl) leaves the functions to PUBLIC.
revoke all on schema sepu from {role};
revoke all on all tables in schema sepu from {role};
revoke all on all functions in schema sepu from {role}, public

-- name: grant_service
-- All that a service needs, and nothing else: to call what requests call, and to read the applied migrations.
grant usage on schema sepu to {role};
grant select on sepu.migration to {role};
grant execute on function sepu.probe, sepu.key_secret, sepu.broken_settings, sepu.nodes, sepu.node_state to {role};
grant execute on function sepu.admit, sepu.read_usage, sepu.meter_request to {role};
grant execute on function sepu.admit_batch, sepu.read_usage_batch, sepu.meter_request_batch to {role}

-- name: grant_events
-- All that the delivery of events needs. It reads no key, no result and no body.
grant usage on schema sepu to {role};
grant select on sepu.migration, sepu.quota_event to {role};
grant select (account_id, external_id, name) on sepu.account to {role};
-- By column: a role that may update a whole table may also lock it, and charges that record an event would wait.
grant select, update (due_at, attempts, delivered_at, last_error) on sepu.event_delivery to {role}

-- name: grant_read_only
-- All that the console and the lists show, and nothing else: no hash of a key, no idempotency key, no answer.
grant usage on schema sepu to {role};
grant select on sepu.migration, sepu.plan, sepu.plan_limit, sepu.plan_allowance, sepu.change, sepu.audit_run to {role};
grant select on sepu.account_now, sepu.usage, sepu.usage_day, sepu.adjustment to {role};
grant select (account_id, plan_id, erased_plan_id, status, created_at, expires_at, name, external_id) on sepu.account to {role};
grant select on sepu.quota_event, sepu.event_delivery to {role};
grant select (account_id, key_id, name, external_id, created_at, expires_at, revoked_at, used_until)
   on sepu.api_key to {role};
grant select (account_id, meter, units, period, created_at, key_id, request_id) on sepu.stored_result to {role}

-- name: grant_support
-- Besides: what a charge was for, but not its answer.
grant select (idempotency_key, fingerprint) on sepu.stored_result to {role}

-- name: grant_billing
-- Besides: to grant and credit, and to see whether a month is complete.
grant execute on function sepu.adjust_usage, sepu.unfinished to {role}

-- name: grant_accounts
-- Besides: to make and change accounts, keys and plans, and to send events again.
grant execute on function sepu.make_change, sepu.key_secret to {role};
grant select on sepu.receipt to {role}

-- name: read_granted_roles
-- The roles of each purpose: each was granted something that only its purpose, and those that include it, call (any
-- version), read or write. A role has the last of the purposes that it fits.
with object as (
    select regexp_replace(proname, '_v[0-9]+$', '') as name, proacl as granted, proowner as owner
      from pg_proc where pronamespace = 'sepu'::regnamespace
     union all
    select relname, relacl, relowner from pg_class where relnamespace = 'sepu'::regnamespace
     union all
    select c.relname || '.' || a.attname, a.attacl, c.relowner
      from pg_attribute a join pg_class c on c.oid = a.attrelid
     where c.relnamespace = 'sepu'::regnamespace
)
select distinct on (r.rolname) p.purpose, r.rolname
  from unnest('{service,events,read-only,support,billing,accounts}'::text[],
              '{meter_request,event_delivery.attempts,audit_run,stored_result.fingerprint,adjust_usage,make_change}'::text[])
       with ordinality as p (purpose, name, at)
  join object o on o.name = p.name
 cross join aclexplode(o.granted) a
  join pg_roles r on r.oid = a.grantee
 where a.grantee <> o.owner
 order by r.rolname, p.at desc

-- name: read_rights
-- What roles may do with the schema, its tables' columns and its functions, however they came to that right: by a
-- grant, as a member of another role, or because everybody may.
select r.rolname, p.privilege, p.object, p.part
  from pg_roles r
 cross join lateral (
       select lower(n.privilege) as privilege, 'sepu.' || c.relname as object, a.attname::text as part
         from pg_class c
         join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
        cross join unnest('{SELECT,INSERT,UPDATE,REFERENCES}'::text[]) n (privilege)
        where c.relnamespace = 'sepu'::regnamespace and c.relkind in ('r', 'p', 'v')
          and has_column_privilege(r.oid, c.oid, a.attnum, n.privilege)
        union all
       select lower(n.privilege), 'sepu.' || c.relname, null
         from pg_class c cross join unnest('{INSERT,UPDATE,DELETE,TRUNCATE,TRIGGER}'::text[]) n (privilege)
        where c.relnamespace = 'sepu'::regnamespace and c.relkind in ('r', 'p', 'v')
          and has_table_privilege(r.oid, c.oid, n.privilege)
        union all
       select 'execute', 'sepu.' || f.proname, null
         from pg_proc f where f.pronamespace = 'sepu'::regnamespace and has_function_privilege(r.oid, f.oid, 'EXECUTE')
        union all
       select lower(n.privilege), 'sepu', null
         from unnest('{USAGE,CREATE}'::text[]) n (privilege) where has_schema_privilege(r.oid, 'sepu', n.privilege)
       ) p
 where r.rolname = any (%(roles)s)

-- name: read_memberships
-- Which of these roles can become the schema's owner or a superuser, and the statement that ends it.
select r.rolname, case when r.rolsuper then 'the rights of a superuser' else 'the rights of ' || o.rolname end,
       case when r.rolsuper then format('alter role %%I nosuperuser', r.rolname)
            else format('revoke %%I from %%I', o.rolname, r.rolname) end
  from pg_roles r
  join pg_namespace n on n.nspname = 'sepu'
  left join pg_auth_members m on m.member = r.oid and pg_has_role(m.roleid, n.nspowner, 'MEMBER')
  left join pg_roles o on o.oid = m.roleid
 where r.rolname = any (%(roles)s) and (r.rolsuper or m.roleid is not null)

-- name: read_writers
-- The roles without a purpose that were granted to write to a table, to which, and the statement that ends it.
select coalesce(r.rolname, 'PUBLIC'), string_agg(distinct 'sepu.' || o.name, ', ') as tables,
       format('revoke insert, update, delete, truncate, references, trigger on %%s from %%s',
              string_agg(distinct 'sepu.' || o.name, ', '), coalesce(quote_ident(r.rolname), 'public'))
  from (select relname as name, relacl as granted, relowner as owner
          from pg_class where relnamespace = 'sepu'::regnamespace
         union all
        select c.relname, a.attacl, c.relowner
          from pg_attribute a join pg_class c on c.oid = a.attrelid
         where c.relnamespace = 'sepu'::regnamespace) o
 cross join aclexplode(o.granted) a
  left join pg_roles r on r.oid = a.grantee
 where a.privilege_type <> 'SELECT' and a.grantee <> o.owner and (r.rolname = any (%(roles)s)) is not true
 group by r.rolname

-- name: set_keepers
-- Until the transaction ends.
select set_config('sepu.keepers', %(keepers)s::text[]::text, true)

-- name: read_open_rights
-- `may`: whether this session may run the statements. `by_superuser`: whether only a superuser may.
select o.what, o.grants, o.revoke, o.is_here,
       pg_has_role(o.owner, 'USAGE') as may, r.rolsuper as by_superuser
  from ({public}) o
  join pg_roles r on r.oid = o.owner

-- name: read_unbounded_roles
-- What roles with a purpose lack: bounds, and the way into this database. In the form of read_open_rights, for a role each.
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
