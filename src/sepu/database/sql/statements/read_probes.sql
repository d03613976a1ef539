-- For each worker that holds accounts, an account id that would be placed there; there need be no such account.
select distinct on (n.nodeid) format('%%s:%%s', n.nodename, n.nodeport) as node, 'probe' || i as account_id
  from generate_series(1, 2000) i
  join pg_dist_placement p on p.shardid = get_shard_id_for_distribution_column('sepu.account', 'probe' || i)
  join pg_dist_node n on n.groupid = p.groupid and n.noderole = 'primary'
 where n.groupid <> (select groupid from pg_dist_local_group)
 order by n.nodeid, i
