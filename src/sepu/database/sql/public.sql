-- What Postgres lets every role do by default and no serving role needs: take memory, disk or log without a limit, end
-- other sessions, enter other databases. One row for each kind of object that is not closed yet:
--   what      names the kind, for a person
--   grants    give the right to the roles of the setting sepu.keepers, who had it through PUBLIC only. The first of them
--             owns the schema; without the setting, this is the current role. They come first, in one transaction with
--             `revoke`: charges run with the owner's rights.
--   revoke    takes it from PUBLIC; null if PUBLIC does not have it, and only the owner lacks it
--   is_here   whether this concerns only this database
--   owner     of the objects: may run the statements, as may a superuser
-- deploy/postgres/close-public.sh runs this in every database of a server; `sepu db check` prints the statements.
with keeper as (
    select string_agg(quote_ident(k.name), ', ' order by k.at) as names, min(k.name) filter (where k.at = 1) as first
      from unnest(coalesce(nullif(current_setting('sepu.keepers', true), '')::text[], array[current_user::text]))
           with ordinality as k (name, at)
), object as (
    -- Advisory locks fill the table that all locks share, and then no transaction can begin. pg_advisory_unlock… stay
    -- open, because poolers call them.
    select 'functions that take memory, disk or log, or end sessions' as what, 'execute on function ' as granted,
           p.oid::regprocedure::text as name, p.proowner as owner,
           has_function_privilege('public', p.oid, 'EXECUTE') as is_open,
           not has_function_privilege(k.first, p.oid, 'EXECUTE') as is_missing
      from pg_proc p cross join keeper k
     where p.pronamespace = 'pg_catalog'::regnamespace
       and (p.proname ~ '^pg_(try_)?advisory_(xact_)?lock(_shared)?$'
            or p.proname in ('lo_creat', 'lo_create', 'lo_from_bytea', 'pg_cancel_backend', 'pg_export_snapshot',
                             'pg_logical_emit_message', 'pg_notify', 'pg_terminate_backend'))
     union all
    -- A `do` block writes what it likes to the log. Calling a function of the language needs no right on the language.
    select 'languages that run a block of code', 'usage on language ', quote_ident(l.lanname), l.lanowner,
           has_language_privilege('public', l.oid, 'USAGE'), not has_language_privilege(k.first, l.oid, 'USAGE')
      from pg_language l cross join keeper k
     where l.lanpltrusted and l.laninline <> 0
     union all
    -- A role that may update a view may lock it, and nobody else can read it then.
    select 'the view pg_settings', 'update on ', 'pg_catalog.pg_settings', c.relowner,
           has_table_privilege('public', c.oid, 'UPDATE'), false
      from pg_class c where c.oid = 'pg_catalog.pg_settings'::regclass
)
select o.what,
       array['grant ' || o.granted || string_agg(o.name, ', ' order by o.name) || ' to ' || k.names] as grants,
       'revoke ' || o.granted || string_agg(o.name, ', ' order by o.name) filter (where o.is_open) || ' from public'
           as revoke,
       true as is_here, o.owner
  from object o cross join keeper k
 where o.is_open or o.is_missing
 group by o.what, o.granted, o.owner, k.names
 union all
-- Before Postgres 15.
select 'the schema public', '{}', 'revoke create on schema public from public', true, n.nspowner
  from pg_namespace n
 where n.nspname = 'public' and has_schema_privilege('public', n.oid, 'CREATE')
 union all
-- Each database has its own catalog, where all of this is open again. Monitoring reads statistics in any of them.
select 'the database ' || quote_ident(d.datname),
       array['grant connect, temporary on database ' || quote_ident(d.datname) || ' to ' || k.names,
             'grant connect on database ' || quote_ident(d.datname) || ' to pg_monitor'],
       'revoke all on database ' || quote_ident(d.datname) || ' from public',
       d.datname = current_database(), d.datdba
  from pg_database d cross join keeper k
 where d.datallowconn and has_database_privilege('public', d.oid, 'CONNECT, TEMPORARY, CREATE')
 union all
-- Only then can `sepu db check` say how long another role's session has held a lock.
select 'statistics', array['grant pg_read_all_stats to ' || quote_ident(k.first)], null, false,
       'pg_read_all_stats'::regrole
  from keeper k
 where not pg_has_role(k.first, 'pg_read_all_stats', 'USAGE')
