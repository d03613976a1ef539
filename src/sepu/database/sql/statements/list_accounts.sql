-- The next accounts in the order of the primary key, after a given one, with this month's usage. A filter that is null
-- lets all pass.
select a.account_id, a.external_id, a.name, a.status, a.created_at, a.plan_id,
       coalesce(json_object_agg(l.meter, l.units) filter (where l.meter is not null), '{}') as limits,
       p.requests_per_minute,
       coalesce(json_object_agg(u.meter, u.committed) filter (where u.meter is not null), '{}') as committed
  from sepu.account a
  join sepu.plan p on p.plan_id = a.plan_id
  left join sepu.plan_limit l on l.plan_id = a.plan_id
  left join sepu.usage u on u.account_id = a.account_id and u.meter = l.meter
        and u.period = to_char(now() at time zone 'UTC', 'YYYY-MM')
 where a.account_id > %(after)s
   and (%(account_id)s::text is null or a.account_id = %(account_id)s)
   and (%(plan_id)s::text is null or a.plan_id = %(plan_id)s)
   and (%(status)s::text is null or a.status = %(status)s)
   and (%(search)s::text is null
        or position(lower(%(search)s) in lower(concat_ws(' ', a.account_id, a.external_id, a.name))) > 0)
 group by a.account_id, a.external_id, a.name, a.status, a.created_at, a.plan_id, p.requests_per_minute
 order by a.account_id
 limit %(limit)s
