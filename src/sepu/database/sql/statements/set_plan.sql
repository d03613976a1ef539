-- The release before kept the limits of its two meters here (superseded.sql).
insert into sepu.plan (plan_id, requests_per_minute)
values (%(plan_id)s, %(requests_per_minute)s)
on conflict (plan_id) do update
   set match_limit = 0, search_limit = 0, requests_per_minute = excluded.requests_per_minute
