select key_id, external_id, name,
       case when revoked_at is not null then 'revoked' when expires_at <= now() then 'expired' else 'valid' end as state,
       created_at, expires_at, revoked_at, (used_until at time zone 'UTC' - interval '1 day')::date as last_used_on
  from sepu.api_key
 where account_id = %(account_id)s
 order by created_at, key_id
