-- The roles that were granted what only the console reads.
select distinct r.rolname
  from pg_class c
 cross join aclexplode(c.relacl) a
  join pg_roles r on r.oid = a.grantee
 where c.oid = to_regclass('sepu.audit_run') and a.privilege_type = 'SELECT' and a.grantee <> c.relowner
