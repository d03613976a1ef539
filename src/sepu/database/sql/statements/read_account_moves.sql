-- Since a month began.
select account_id, moved_at, from_plan, to_plan
  from sepu.account_move
 where moved_at >= (%(period)s || '-01')::timestamp at time zone 'UTC'
   and (%(account_id)s::text is null or account_id = %(account_id)s)
 order by account_id, moved_at
