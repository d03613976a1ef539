-- name: limit_statements
-- Until the transaction ends.
select set_config('statement_timeout', %(milliseconds)s, true)

-- name: begin_session
-- The first statement of a service's session: returns the secret of the keys' tags, the settings that break a promise,
-- and whether statements of this role have waited longer than the given milliseconds for a synchronous standby.
select sepu.key_secret(), sepu.broken_settings(), exists (
    select from pg_stat_activity
     where usename = current_user and wait_event = 'SyncRep' and query_start < now() - %s * interval '1 ms')

-- name: read_server
select current_setting('server_version'), pg_is_in_recovery(), pg_database_size(current_database())

-- name: check_settings
-- The settings that promises rely on, for this session's role and others. A role's session takes each from the first
-- that sets it: the role in this database, the role, the database, all roles, the server.
select r.rolname, n.name,
       coalesce(case when r.rolname = session_user then s.setting end, d.value,
                case when s.source in ('default', 'configuration file', 'command line', 'environment variable', 'override')
                     then s.setting else s.boot_val end) as value,
       n.accepted,
       case when r.rolname = session_user and s.source in ('client', 'session') then 'the connection'
            when d.value is null then 'the server'
            else concat_ws(' in ', case when d.setrole > 0 then 'role ' || quote_ident(r.rolname)
                                        when d.setdatabase = 0 then 'all roles' end,
                           case when d.setdatabase > 0 then 'database ' || quote_ident(current_database()) end)
       end as set_by
  from sepu.needed_settings() n
  join pg_settings s on s.name = n.name
 cross join pg_roles r
  left join lateral (
       select d.setrole, d.setdatabase, substr(c.setting, strpos(c.setting, '=') + 1) as value
         from pg_db_role_setting d cross join unnest(d.setconfig) as c (setting)
        where n.inherited and split_part(c.setting, '=', 1) = n.name and d.setrole in (0, r.oid)
          and d.setdatabase in (0, (select oid from pg_database where datname = current_database()))
        order by d.setrole = 0, d.setdatabase = 0
        limit 1) d on true
 where r.rolname = session_user or r.rolname = any (%(roles)s)
 order by r.rolname <> session_user, r.rolname, n.name
