-- All but the given key. A key that expires earlier stays as it is.
update sepu.api_key set expires_at = %(expires_at)s
 where account_id = %(account_id)s and key_id <> %(key_id)s
   and revoked_at is null and (expires_at is null or expires_at > %(expires_at)s)
