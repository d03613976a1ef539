-- The roles that were granted what the service calls, of whatever version.
select distinct r.rolname
  from pg_proc p
 cross join aclexplode(p.proacl) a
  join pg_roles r on r.oid = a.grantee
 where p.pronamespace = 'sepu'::regnamespace and p.prosecdef and a.grantee <> p.proowner
