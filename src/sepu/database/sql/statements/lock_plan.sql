-- One change of a plan at a time. Requests read it meanwhile.
select requests_per_minute from sepu.plan where plan_id = %(plan_id)s for no key update
