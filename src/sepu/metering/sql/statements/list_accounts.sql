-- The next of them in order of the primary key, after a given one.
select a.account_id, a.status, a.created_at, a.plan_id, p.match_limit, p.search_limit, p.requests_per_minute
  from sepu.account a
  join sepu.plan p on p.plan_id = a.plan_id
 where a.account_id > %(after)s
 order by a.account_id
 limit %(limit)s
