insert into sepu.plan (plan_id, requests_per_minute) values (%(plan_id)s, %(requests_per_minute)s)
on conflict (plan_id) do update set requests_per_minute = excluded.requests_per_minute
