-- The tables that nothing assigns to nodes.
select t.relname
  from pg_class t
 where t.relnamespace = 'sepu'::regnamespace and t.relkind in ('r', 'p', 'S')
   and t.relname not in ('plan', 'plan_limit', 'plan_change', 'migration', 'audit_run', 'probe')
   and not exists (select from pg_attribute a where a.attrelid = t.oid and a.attname = 'account_id')
 order by t.relname
