-- Status, plan and limits are those of now: the ledger keeps no history of them.
select a.account_id, a.status, a.plan_id,
       p.match_limit, coalesce(m.committed, 0) as match_committed, coalesce(m.reserved, 0) as match_reserved,
       p.search_limit, coalesce(s.committed, 0) as search_committed, coalesce(s.reserved, 0) as search_reserved
  from sepu.account a
  join sepu.plan p on p.plan_id = a.plan_id
  left join sepu.usage m on m.account_id = a.account_id and m.period = %(period)s and m.meter = 'color_match'
  left join sepu.usage s on s.account_id = a.account_id and s.period = %(period)s and s.meter = 'color_search'
 where a.created_at < ((%(period)s || '-01')::timestamp + interval '1 month') at time zone 'UTC'
 order by a.account_id
