-- One rotation or move of an account at a time. Charges go on: their foreign keys need no more than that the row stays.
select plan_id from sepu.account where account_id = %(account_id)s for no key update
