-- name: erase_account
-- The plan's name stays for the bills, but no longer keeps the plan.
update sepu.account
   set status = 'erased', name = null, external_id = null, erased_plan_id = coalesce(plan_id, erased_plan_id),
       plan_id = null
 where account_id = %(account_id)s

-- name: is_unused
-- Whether an account never had a counter, and none of its keys was ever used.
select not exists (select from sepu.usage where account_id = %(account_id)s)
   and not exists (select from sepu.api_key where account_id = %(account_id)s and used_until is not null)

-- name: delete_account
delete from sepu.account where account_id = %(account_id)s

-- name: erase_receipts
delete from sepu.receipt where account_id = %(account_id)s

-- name: erase_keys
delete from sepu.api_key where account_id = %(account_id)s

-- name: list_counters
select period, meter from sepu.usage where account_id = %(account_id)s order by period, meter

-- name: forget_usage
-- Clears the counters' sums of days and of events.
update sepu.usage set dated = 0, events = 0 where account_id = %(account_id)s and (dated > 0 or events > 0)

-- name: erase_events
-- Deletes their deliveries too.
delete from sepu.quota_event where account_id = %(account_id)s

-- name: erase_reasons
-- The reasons of grants and credits may name a person. The operator's name stays.
update sepu.adjustment set reason = null where account_id = %(account_id)s

-- name: erase_days
delete from sepu.usage_day where account_id = %(account_id)s

-- name: erase_request_rate
delete from sepu.request_rate where account_id = %(account_id)s

-- name: count_results
select count(*) from sepu.stored_result where account_id = %(account_id)s
