-- By its number both lanes know which window a counter is of.
alter table sepu.request_rate add column window_number integer not null default 0;

-- Postgres reads and plans the text of each check anew in each statement that writes the table: one costs a charge as
-- much as a look-up by primary key. So one of a table says all, and says it once.
--
-- A counter's month and meter are its key. The function makes the one, and the other is refused with the result.
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
    drop constraint stored_result_units_positive,
    drop constraint stored_result_body_bounded,
    add constraint stored_result_form check (
        length(idempotency_key) between 8 and 128
        and octet_length(fingerprint) = 32
        and meter in ('color_match', 'color_search')
        and units >= 1
        and octet_length(body) between 2 and 65536
    );
-- Constants of one function, and forgotten after a minute.
alter table sepu.request_rate
    drop constraint request_rate_lane_known,
    drop constraint request_rate_requests_positive;
