-- name: make_change
select outcome, before, holder
  from sepu.make_change(%(operator)s, %(action)s, %(account_id)s, %(subject)s, %(given)s::jsonb)

-- name: read_states
select sepu.read_states(%(action)s, %(account_id)s, null)

-- name: record_changes
select sepu.record_changes(%(operator)s, %(action)s, %(account_id)s, %(before)s::jsonb, %(after)s::jsonb)

-- name: forget_names
select sepu.forget_names(%(account_id)s)

-- name: lock_account_state
-- Allows one change at a time to an account and its keys, even if the account is erased.
select from sepu.account where account_id = %(account_id)s for no key update

-- name: read_moves
-- The plans that accounts left and joined since the beginning of a month.
select account_id, changed_at, before ->> 'planId', after ->> 'planId'
  from sepu.change
 where account_id <> '' and before ? 'planId'
   and changed_at >= (%(period)s || '-01')::timestamp at time zone 'UTC'
   and (%(account_id)s::text is null or account_id = %(account_id)s)
 order by account_id, changed_at, number

-- name: read_plans_had
-- The plans that an account had, and since when. Latest first.
select changed_at, after ->> 'planId' from sepu.change
 where account_id = %(account_id)s and after ? 'planId'
 order by changed_at desc, number desc

-- name: list_changes
select changed_at, nullif(account_id, ''), action, subject, operator, role, before, after
  from sepu.change
 where (%(account_id)s::text is null or account_id = %(account_id)s)
   and (%(plans)s::text[] is null or subject = any (%(plans)s) and action like 'plan.%%')
   and (%(since)s::timestamptz is null or changed_at >= %(since)s)
   and (%(until)s::timestamptz is null or changed_at < %(until)s)
   and (%(operator)s::text is null or operator = %(operator)s)
   and (%(role)s::text is null or role = %(role)s)
   and (%(action)s::text is null or action = %(action)s or starts_with(action, %(action)s || '.'))
 order by changed_at desc, number desc
 limit %(limit)s
