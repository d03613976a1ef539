insert into sepu.receipt (account_id, rotation_id, thumbprint, key_id, receipt, older_keys_expire_at, created_at)
values (%(account_id)s, %(rotation_id)s, %(thumbprint)s, %(key_id)s, %(receipt)s, %(older_keys_expire_at)s,
        %(issued_at)s)
