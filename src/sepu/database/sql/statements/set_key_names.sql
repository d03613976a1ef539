-- What is null stays; what is empty is taken away.
update sepu.api_key
   set name = nullif(coalesce(%(name)s, name), ''), external_id = nullif(coalesce(%(external_id)s, external_id), '')
 where account_id = %(account_id)s and key_id = %(key_id)s
