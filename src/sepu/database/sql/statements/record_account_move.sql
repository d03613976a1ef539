insert into sepu.account_move (account_id, moved_at, from_plan, to_plan)
values (%(account_id)s, now(), %(from_plan)s, %(to_plan)s)
on conflict (account_id, moved_at) do update set to_plan = excluded.to_plan
