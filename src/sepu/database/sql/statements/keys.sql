-- name: read_key_secret
select sepu.key_secret()

-- name: list_keys
-- For one account or for all; optionally only valid keys that expire soon, or whose account does, the next first.
select k.key_id, k.external_id, k.name,
       case when k.revoked_at is not null then 'revoked' when k.expires_at <= now() then 'expired' else 'valid' end
         as state,
       k.created_at, k.expires_at, k.revoked_at, (k.used_until at time zone 'UTC' - interval '1 day')::date as last_used_on,
       a.name as account_name, a.external_id as account_external_id, a.expires_at as account_expires_at
  from sepu.api_key k
  join sepu.account a on a.account_id = k.account_id
 where (%(account_id)s::text is null or k.account_id = %(account_id)s)
   and (%(account_id)s::text is null or a.account_id = %(account_id)s)
   and (%(key_id)s::text is null or k.key_id = %(key_id)s)
   and (%(ends_within)s::interval is null
        or k.revoked_at is null and least(k.expires_at, a.expires_at) > now()
       and least(k.expires_at, a.expires_at) <= now() + %(ends_within)s)
 order by case when %(ends_within)s::interval is null then k.created_at else least(k.expires_at, a.expires_at) end, k.key_id
 limit %(limit)s offset %(skip)s

-- name: count_ending
-- Valid keys that end within a time, by themselves or with their account; and active accounts that end within it.
select k.keys, a.accounts
  from (select count(*) as keys
          from sepu.api_key k
          join sepu.account a on a.account_id = k.account_id
         where k.revoked_at is null and least(k.expires_at, a.expires_at) > now()
           and least(k.expires_at, a.expires_at) <= now() + %(within)s::interval) k,
       (select count(*) as accounts
          from sepu.account_now where status = 'active' and expires_at <= now() + %(within)s::interval) a
