-- name: find_account
select account_id from sepu.account where account_id = %(account_id)s

-- name: find_external_id
-- At most one row.
select account_id from sepu.account where external_id = %(external_id)s

-- name: find_external_ids
select external_id, account_id from sepu.account where external_id = any (%(external_ids)s::text[])

-- name: find_key_account
select account_id from sepu.api_key where account_id = %(account_id)s and key_id = %(key_id)s

-- name: lock_external_ids
-- Held until the transaction ends, so that two commands do not give one external id to two accounts.
select pg_advisory_xact_lock(hashtext('sepu.external_id'), 0)

-- name: lock_account
-- Allows one change to an account at a time, and none after it was erased. Charges continue: their foreign keys need
-- only that the row stays.
select plan_id from sepu.account where account_id = %(account_id)s and status <> 'erased' for no key update
