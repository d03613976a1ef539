-- Calls that run now are in functions of the release before: see 0005. What they cross is no event yet.
lock table sepu.api_key in access exclusive mode;

-- A charge that takes a counter to one of these percentages of its limit is an event.
alter table sepu.plan_limit
    add column thresholds bigint[] not null default '{80,95,100}',   -- ascending; none: no events
    add constraint plan_limit_thresholds_percent
        check (array_ndims(thresholds) = 1 and array_position(thresholds, null) is null
               and 1 <= all (thresholds) and 100 >= all (thresholds));

-- What charges crossed. A counter only grows, so it crosses a threshold of a limit once.
create table sepu.quota_event (
    account_id text        not null,
    period     text        not null,
    meter      text        not null,
    threshold  integer     not null,   -- percent of the limit
    unit_limit integer     not null,   -- in force then
    committed  integer     not null,   -- by the charge that crossed, with all before it
    crossed_at timestamptz not null,
    constraint quota_event_pkey primary key (account_id, period, meter, threshold, unit_limit),
    constraint quota_event_account_fkey foreign key (account_id) references sepu.account (account_id),
    constraint quota_event_crossed
        check (committed <= unit_limit and committed * 100::bigint >= unit_limit * threshold::bigint)
);

-- Where an event is on its way to the operator's endpoint. It may be deleted: the event stays.
create table sepu.event_delivery (
    account_id   text        not null,
    period       text        not null,
    meter        text        not null,
    threshold    integer     not null,
    unit_limit   integer     not null,
    due_at       timestamptz,                 -- of the next attempt; null: delivered, or given up
    attempts     integer     not null default 0,
    delivered_at timestamptz,                 -- null: not delivered
    last_error   text,                        -- null: none
    constraint event_delivery_pkey primary key (account_id, period, meter, threshold, unit_limit),
    constraint event_delivery_event_fkey foreign key (account_id, period, meter, threshold, unit_limit)
        references sepu.quota_event (account_id, period, meter, threshold, unit_limit) on delete cascade
);
create index event_delivery_due on sepu.event_delivery (account_id, due_at) where due_at is not null;

-- How many events a counter has, so that an audit notices one that is lost.
alter table sepu.usage add column events integer not null default 0;
