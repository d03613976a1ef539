-- The ledger's tables. All but plan are led by account_id, in every key and constraint, so that a distributed
-- Postgres can place an account and everything that belongs to it on one node.

create table sepu.plan (
    plan_id             text    not null,
    match_limit         integer not null,   -- colours a month
    search_limit        integer not null,   -- searches a month
    requests_per_minute integer not null,
    constraint plan_pkey primary key (plan_id),
    constraint plan_id_form check (plan_id ~ '^[a-z0-9][a-z0-9_-]{0,63}$'),
    constraint plan_match_limit_natural check (match_limit >= 0),
    constraint plan_search_limit_natural check (search_limit >= 0),
    constraint plan_requests_positive check (requests_per_minute >= 1)
);

insert into sepu.plan (plan_id, match_limit, search_limit, requests_per_minute) values ('standard', 2000, 1000, 120);

create table sepu.account (
    account_id text        not null,
    plan_id    text        not null,
    status     text        not null default 'active',
    created_at timestamptz not null default now(),
    constraint account_pkey primary key (account_id),
    constraint account_plan_fkey foreign key (plan_id) references sepu.plan (plan_id),
    constraint account_id_form check (account_id ~ '^[a-z2-7]{16}$'),
    constraint account_status_known check (status in ('active', 'suspended'))
);

create table sepu.api_key (
    account_id text        not null,
    key_hash   bytea       not null,   -- SHA-256 of the key; the key itself is stored nowhere
    key_id     text        not null,
    created_at timestamptz not null default now(),
    expires_at timestamptz,            -- null: does not expire
    revoked_at timestamptz,            -- null: not revoked
    constraint api_key_pkey primary key (account_id, key_hash),
    constraint api_key_id_unique unique (account_id, key_id),
    constraint api_key_account_fkey foreign key (account_id) references sepu.account (account_id),
    constraint api_key_hash_length check (octet_length(key_hash) = 32),
    constraint api_key_id_form check (key_id ~ '^[a-z2-7]{16}-[a-z2-7]{8}$')
);

-- One counter per account, month and meter. The low fill factor keeps its updates on their page (HOT).
create table sepu.usage (
    account_id text    not null,
    period     text    not null,            -- UTC month
    meter      text    not null,
    committed  integer not null,
    reserved   integer not null default 0,  -- a charge is one step, so nothing of ours ever reserves
    constraint usage_pkey primary key (account_id, period, meter),
    constraint usage_account_fkey foreign key (account_id) references sepu.account (account_id),
    constraint usage_period_form check (period ~ '^\d{4}-(0[1-9]|1[0-2])$'),
    constraint usage_meter_known check (meter in ('color_match', 'color_search')),
    constraint usage_committed_natural check (committed >= 0),
    constraint usage_reserved_natural check (reserved >= 0)
) with (fillfactor = 40);

-- What an idempotency key was charged for, and the response that its retries get. No foreign key: the function that
-- inserts has just read the account, accounts are never deleted, and the check would lock the account's row each time.
create table sepu.stored_result (
    account_id      text        not null,
    idempotency_key text        not null,
    fingerprint     bytea       not null,   -- SHA-256 of the operation and its parsed input
    meter           text        not null,
    units           integer     not null,
    period          text        not null,   -- the month that was charged
    body            bytea       not null,
    created_at      timestamptz not null,
    constraint stored_result_pkey primary key (account_id, idempotency_key),
    constraint stored_result_key_length check (length(idempotency_key) between 8 and 128),
    constraint stored_result_fingerprint_length check (octet_length(fingerprint) = 32),
    constraint stored_result_meter_known check (meter in ('color_match', 'color_search')),
    constraint stored_result_units_positive check (units >= 1),
    constraint stored_result_body_bounded check (octet_length(body) between 2 and 65536)
);

-- The abuse limit's counters. Unlogged: a crash may forget the last minute of requests, and in return a request that
-- charges nothing writes no WAL and waits for no disk.
create unlogged table sepu.request_rate (
    account_id   text        not null,
    lane         smallint    not null,   -- 0: may execute; 1: its idempotency key is in use by a running request
    window_start timestamptz not null,
    requests     integer     not null,
    constraint request_rate_pkey primary key (account_id, lane),
    constraint request_rate_lane_known check (lane in (0, 1)),
    constraint request_rate_requests_positive check (requests >= 1)
) with (fillfactor = 40);
