-- name: find_account
select account_id from sepu.account where account_id = %(account_id)s

-- name: find_external_id
-- At most one row.
select account_id from sepu.account where external_id = %(external_id)s

-- name: find_external_ids
select external_id, account_id from sepu.account where external_id = any (%(external_ids)s::text[])

-- name: find_key_account
select account_id from sepu.api_key where account_id = %(account_id)s and key_id = %(key_id)s
