-- The tables and functions that are not yet distributed as they should be: all, before the first time. The table of the
-- probe stays on the coordinator, whatever becomes of a worker.
select t.relname
  from pg_class t
  left join pg_dist_partition d on d.logicalrelid = t.oid
 where t.relnamespace = 'sepu'::regnamespace and t.relkind = 'r' and t.relname <> 'probe'
   and case when t.relname in ('plan', 'plan_limit', 'plan_change', 'migration', 'audit_run')
            then d.partmethod = 'n' and d.repmodel = 't'
            else d.partmethod = 'h' and d.colocationid = (
                select a.colocationid from pg_dist_partition a where a.logicalrelid = 'sepu.account'::regclass)
       end is not true
 union all
select p.proname
  from pg_proc p
  left join pg_dist_object o on o.classid = 'pg_proc'::regclass and o.objid = p.oid
 where p.pronamespace = 'sepu'::regnamespace
   and case when p.prosecdef and p.proargnames[1] = 'p_account_id' then
                o.distribution_argument_index = 0 and o.colocationid = (
                    select a.colocationid from pg_dist_partition a where a.logicalrelid = 'sepu.account'::regclass)
            else o.objid is not null
       end is not true
 order by 1
