-- What Postgres lets every role write unless somebody revokes it: what revokes it, and whether this session may.
select 'revoke temporary on database ' || quote_ident(d.datname) || ' from public' as statement,
       pg_has_role(d.datdba, 'USAGE') as may
  from pg_database d
 where d.datname = current_database() and has_database_privilege('public', d.oid, 'TEMPORARY')
 union all
select 'revoke create on schema public from public', pg_has_role(n.nspowner, 'USAGE')
  from pg_namespace n
 where n.nspname = 'public' and has_schema_privilege('public', n.oid, 'CREATE')
 union all
-- Large objects, and messages in the WAL.
select 'revoke execute on function ' || string_agg(p.oid::regprocedure::text, ', ' order by p.oid) || ' from public',
       bool_and(pg_has_role(p.proowner, 'USAGE'))
  from pg_proc p
 where p.pronamespace = 'pg_catalog'::regnamespace
   and p.proname in ('lo_creat', 'lo_create', 'lo_from_bytea', 'pg_logical_emit_message')
   and has_function_privilege('public', p.oid, 'EXECUTE')
having count(*) > 0
