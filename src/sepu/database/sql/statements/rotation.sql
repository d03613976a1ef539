-- name: read_receipt
select r.thumbprint, r.key_id, r.receipt, r.created_at, r.older_keys_expire_at,
       k.revoked_at is null and (k.expires_at is null or k.expires_at > now()) as is_valid
  from sepu.receipt r join sepu.api_key k on k.account_id = r.account_id and k.key_id = r.key_id
 where r.account_id = %(account_id)s and r.rotation_id = %(rotation_id)s

-- name: expire_other_keys
-- Expires all keys but the given one, or only the one that it replaces. A key that expires earlier stays as it is.
update sepu.api_key set expires_at = %(expires_at)s
 where account_id = %(account_id)s and key_id <> %(key_id)s
   and (%(replaced)s::text is null or key_id = %(replaced)s)
   and revoked_at is null and (expires_at is null or expires_at > %(expires_at)s)

-- name: record_receipt
insert into sepu.receipt (account_id, rotation_id, thumbprint, key_id, receipt, older_keys_expire_at, created_at)
values (%(account_id)s, %(rotation_id)s, %(thumbprint)s, %(key_id)s, %(receipt)s, %(older_keys_expire_at)s,
        %(issued_at)s)
