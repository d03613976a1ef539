-- name: read_receipt
select r.thumbprint, r.key_id, r.receipt, r.created_at, r.older_keys_expire_at,
       k.revoked_at is null and (k.expires_at is null or k.expires_at > now()) as is_valid
  from sepu.receipt r join sepu.api_key k on k.account_id = r.account_id and k.key_id = r.key_id
 where r.account_id = %(account_id)s and r.rotation_id = %(rotation_id)s
