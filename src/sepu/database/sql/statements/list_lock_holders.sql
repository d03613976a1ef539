-- Transactions of others that hold a lock on the ledger's tables, or migrate. Who may not see when another's began gets
-- null.
select distinct a.pid, l.virtualtransaction, a.usename::text, a.application_name,
       date_trunc('second', a.xact_start)::text as since
  from pg_locks l
  join pg_stat_activity a on a.pid = l.pid
  left join pg_class c on c.oid = l.relation
 where l.granted and a.pid <> pg_backend_pid() and a.datname = current_database()
   and (c.relnamespace = to_regnamespace('sepu')
        or l.locktype = 'advisory' and l.objsubid = 1
           and (l.classid::bigint << 32 | l.objid::bigint) = hashtextextended('sepu.migration', 0))
 order by a.pid
