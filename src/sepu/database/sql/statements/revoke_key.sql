-- A second revocation keeps the time of the first. (Citus refuses now() within coalesce.)
update sepu.api_key set revoked_at = least(revoked_at, now())
 where account_id = %(account_id)s and key_id = %(key_id)s
