insert into sepu.api_key (account_id, key_hash, key_id, expires_at)
values (%(account_id)s, %(key_hash)s, %(key_id)s, %(expires_at)s)
returning created_at
