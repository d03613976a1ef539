insert into sepu.plan (plan_id, match_limit, search_limit, requests_per_minute)
values (%(plan_id)s, %(match_limit)s, %(search_limit)s, %(requests_per_minute)s)
on conflict (plan_id) do update
   set match_limit = excluded.match_limit,
       search_limit = excluded.search_limit,
       requests_per_minute = excluded.requests_per_minute
