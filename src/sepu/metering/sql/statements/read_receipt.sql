select thumbprint, key_id, receipt, created_at, older_keys_expire_at from sepu.receipt
 where account_id = %(account_id)s and rotation_id = %(rotation_id)s
