insert into sepu.api_key (account_id, key_hash, key_id, expires_at, name, external_id)
values (%(account_id)s, %(key_hash)s, %(key_id)s, %(expires_at)s, %(name)s, %(external_id)s)
returning created_at
