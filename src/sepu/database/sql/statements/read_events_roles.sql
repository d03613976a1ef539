-- The roles that were granted what only the delivery of events writes.
select distinct r.rolname
  from pg_class c
 cross join aclexplode(c.relacl) a
  join pg_roles r on r.oid = a.grantee
 where c.oid = to_regclass('sepu.event_delivery') and a.privilege_type = 'UPDATE' and a.grantee <> c.relowner
