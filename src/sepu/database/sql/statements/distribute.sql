-- name: has_citus
select exists (select from pg_extension where extname = 'citus')

-- name: has_workers
select exists (
    select from pg_dist_node
     where isactive and shouldhaveshards and noderole = 'primary'
       and groupid <> (select groupid from pg_dist_local_group)
)

-- name: read_strays
-- The tables that nothing assigns to nodes: they have no account id and are not named here.
select t.relname
  from pg_class t
 where t.relnamespace = 'sepu'::regnamespace and t.relkind in ('r', 'p', 'S')
   and t.relname not in ('plan', 'plan_limit', 'plan_allowance', 'key_secret', 'migration', 'audit_run', 'probe')
   and not exists (select from pg_attribute a where a.attrelid = t.oid and a.attname = 'account_id')
 order by t.relname

-- name: read_undistributed
-- The tables and functions that are not yet distributed as they should be; at first these are all. The probe's table
-- stays on the coordinator, so that it does not depend on a worker.
select t.relname
  from pg_class t
  left join pg_dist_partition d on d.logicalrelid = t.oid
 where t.relnamespace = 'sepu'::regnamespace and t.relkind = 'r' and t.relname <> 'probe'
   and case when t.relname in ('plan', 'plan_limit', 'plan_allowance', 'key_secret', 'migration', 'audit_run')
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

-- name: read_nodes
select sepu.nodes()

-- name: read_state
select sepu.node_state(now())

-- name: read_probes
-- For each worker that holds accounts, an account id that would be placed there. The account need not exist.
select distinct on (n.nodeid) format('%%s:%%s', n.nodename, n.nodeport) as node, 'probe' || i as account_id
  from generate_series(1, 2000) i
  join pg_dist_placement p on p.shardid = get_shard_id_for_distribution_column('sepu.account', 'probe' || i)
  join pg_dist_node n on n.groupid = p.groupid and n.noderole = 'primary'
 where n.groupid <> (select groupid from pg_dist_local_group)
 order by n.nodeid, i
