-- All but the given key, and none later than it would anyway.
update sepu.api_key set expires_at = %(expires_at)s
 where account_id = %(account_id)s and key_id <> %(key_id)s
   and revoked_at is null and (expires_at is null or expires_at > %(expires_at)s)
