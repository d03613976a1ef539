-- Who was granted to charge.
select r.rolname
  from pg_proc p
 cross join aclexplode(p.proacl) a
  join pg_roles r on r.oid = a.grantee
 where p.pronamespace = 'sepu'::regnamespace and p.proname = 'meter_request' and a.grantee <> p.proowner
