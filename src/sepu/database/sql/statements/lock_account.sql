-- One change of an account at a time, and none after it was erased. Charges go on: their foreign keys need no more than
-- that the row stays.
select plan_id from sepu.account where account_id = %(account_id)s and status <> 'erased' for no key update
