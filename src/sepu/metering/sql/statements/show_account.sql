select a.account_id, a.status, a.created_at, a.plan_id, p.match_limit, p.search_limit, p.requests_per_minute
  from sepu.account a
  join sepu.plan p on p.plan_id = a.plan_id
 where a.account_id = %(account_id)s
