-- name: list_charges
-- An account's charges that pass all filters, before a given one, newest first. Reads the account's
-- results once, because an index on the time or the request would cost each charge a write.
select c.request_id::text, c.created_at, c.key_id, c.meter, c.units, c.period, c.idempotency_key
  from (select request_id, created_at, key_id, meter, units, period, {idempotency_key} as idempotency_key
          from sepu.stored_result
         where account_id = %(account_id)s
           and (%(key_id)s::text is null or key_id = %(key_id)s)
           and (%(request_id)s::uuid is null or request_id = %(request_id)s::uuid)
           and (%(since)s::timestamptz is null or created_at >= %(since)s)
           and (%(until)s::timestamptz is null or created_at < %(until)s)
           and (%(before)s::timestamptz is null
                or (created_at, request_id) < (%(before)s::timestamptz, %(before_id)s::uuid))
         order by created_at desc, request_id desc
         limit %(limit)s) c

-- name: find_charge
select request_id::text, created_at, key_id, meter, units, period, idempotency_key
  from sepu.stored_result
 where account_id = %(account_id)s and idempotency_key = %(idempotency_key)s

-- name: find_charges
-- By their requests, or by their keys' hashes in the request log (idempotency_key_hash).
select request_id::text, created_at, key_id, meter, units, period, idempotency_key
  from sepu.stored_result
 where account_id = %(account_id)s
   and (request_id = any (%(request_ids)s::uuid[])
        or cardinality(%(hashes)s::text[]) > 0
           and left(encode(sha256(convert_to(account_id || ':' || idempotency_key, 'UTF8')), 'hex'), 12)
               = any (%(hashes)s::text[]))

-- name: find_duplicates
-- Charges that repeat the input of another charge shortly before, oldest first.
select c.request_id::text, c.created_at, c.key_id, c.meter, c.units, c.period, c.idempotency_key,
       c.previous_id::text, c.previous_key_id, c.created_at - c.previous_at
  from (select s.*, lag(s.request_id) over w as previous_id, lag(s.key_id) over w as previous_key_id,
               lag(s.created_at) over w as previous_at
          from (select request_id, created_at, key_id, meter, units, period, idempotency_key, fingerprint
                  from sepu.stored_result
                 where account_id = %(account_id)s
                   and created_at >= %(since)s
                   and (%(until)s::timestamptz is null or created_at < %(until)s)) s
        window w as (partition by s.meter, s.fingerprint order by s.created_at, s.request_id)) c
 where c.created_at - c.previous_at <= make_interval(mins => %(minutes)s)
 order by c.created_at, c.request_id

-- name: list_pruned
-- The months whose results are partly deleted, for one account or for all. Erased accounts do not count among all:
-- after one erasure, nothing could be said of anybody's requests.
select distinct u.period
  from sepu.usage u
 where u.pruned > 0
   and (u.account_id = %(account_id)s
        or %(account_id)s::text is null
           and not exists (select from sepu.account a where a.account_id = u.account_id and a.status = 'erased'))
 order by u.period

-- name: are_erased
select exists (select from sepu.account where status = 'erased')

-- name: find_charged_accounts
-- Reads all results, because an index on the request would cost each charge a write.
select request_id::text, account_id from sepu.stored_result where request_id = any (%(request_ids)s::uuid[])
