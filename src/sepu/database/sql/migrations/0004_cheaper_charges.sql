-- By its number both lanes know which window a counter is of.
alter table sepu.request_rate add column window_number integer not null default 0;

-- Postgres reads and plans the text of a table's checks anew in each statement that writes to it: all of them were 30 %
-- of a charge. What is left guards the sums. The rest is looked at where it costs next to nothing, by the function that
-- alone writes here: it gives a result that is not of the form no units, and so has it refused.
--
-- A counter's month and meter are its key: the function makes the one, and the other is refused with the result.
alter table sepu.usage
    drop constraint usage_period_form,
    drop constraint usage_meter_known,
    drop constraint usage_committed_natural,
    drop constraint usage_reserved_natural,
    drop constraint usage_pruned_natural,
    drop constraint usage_pruned_committed,
    add constraint usage_pruned_committed_reserved check (pruned >= 0 and committed >= pruned and reserved >= 0);
alter table sepu.stored_result
    drop constraint stored_result_key_length,
    drop constraint stored_result_fingerprint_length,
    drop constraint stored_result_meter_known,
    drop constraint stored_result_body_bounded;
-- Constants of one function, and over after a minute.
alter table sepu.request_rate
    drop constraint request_rate_lane_known,
    drop constraint request_rate_requests_positive;
