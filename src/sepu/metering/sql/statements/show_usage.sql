select a.status, a.plan_id, to_char(now() at time zone 'UTC', 'YYYY-MM') as period,
       p.match_limit, coalesce(m.committed, 0) as match_committed, coalesce(m.reserved, 0) as match_reserved,
       p.search_limit, coalesce(s.committed, 0) as search_committed, coalesce(s.reserved, 0) as search_reserved
  from sepu.account a
  join sepu.plan p on p.plan_id = a.plan_id
  left join sepu.usage m on m.account_id = a.account_id and m.meter = 'color_match'
        and m.period = to_char(now() at time zone 'UTC', 'YYYY-MM')
  left join sepu.usage s on s.account_id = a.account_id and s.meter = 'color_search'
        and s.period = to_char(now() at time zone 'UTC', 'YYYY-MM')
 where a.account_id = %(account_id)s
