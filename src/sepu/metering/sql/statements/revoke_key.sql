-- A second revocation keeps the instant of the first. (Citus refuses an instant within coalesce.)
update sepu.api_key set revoked_at = least(revoked_at, now())
 where account_id = %(account_id)s and key_id = %(key_id)s
