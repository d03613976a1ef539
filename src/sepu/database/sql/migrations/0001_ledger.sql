-- The ledger's tables. All but the plans', key_secret, audit_run and probe have account_id first in every key and
-- constraint, so that a distributed Postgres can place all rows of an account on one node.
--
-- A table that a request writes has no check constraint: Postgres parses the constraint again in each statement that
-- writes to the table, and two constraints cost 8 to 10 % of a charge. Instead, the functions check what they write,
-- and `sepu audit` finds rows that no function writes. docs/develop/parts.md says what SQL by hand could store.

-- What operators call an account or a key. A domain's check runs only when its column is written.
create domain sepu.name as text constraint name_form check (value ~ '^\S(.{0,198}\S)?$' and value !~ '[[:cntrl:]]');
-- An account's or a key's id in the operator's other systems.
create domain sepu.external_id as text
    constraint external_id_form check (value ~ '^[A-Za-z0-9][A-Za-z0-9._:@/-]{0,127}$');

create table sepu.plan (
    plan_id             text    not null,
    requests_per_minute integer not null,
    constraint plan_pkey primary key (plan_id),
    constraint plan_id_form check (plan_id ~ '^[a-z0-9][a-z0-9_-]{0,63}$'),
    constraint plan_requests_positive check (requests_per_minute >= 1)
);

-- A plan's monthly limit for each meter. A meter exists if a plan has a limit for it. A charge that takes a counter to
-- a threshold, in percent of its limit, is an event.
create table sepu.plan_limit (
    plan_id    text     not null,
    meter      text     not null,
    units      integer  not null,
    thresholds bigint[] not null default '{80,95,100}',   -- ascending; empty: no events
    constraint plan_limit_pkey primary key (plan_id, meter),
    constraint plan_limit_plan_fkey foreign key (plan_id) references sepu.plan (plan_id),
    constraint plan_limit_meter_form check (meter ~ '^[a-z][a-z0-9_]{0,63}$'),
    constraint plan_limit_units_bounded check (units between 0 and 2000000000),   -- see usage.granted
    constraint plan_limit_thresholds_percent
        check (array_ndims(thresholds) = 1 and array_position(thresholds, null) is null
               and 1 <= all (thresholds) and 100 >= all (thresholds))
);

-- What each plan allowed, and since when. The bills of past months need it; requests do not. No foreign key: the rows
-- outlive their plan.
create table sepu.plan_allowance (
    plan_id text        not null,
    allowed text        not null,   -- a meter, or requestsPerMinute
    since   timestamptz not null,
    units   integer,                -- null: the plan was deleted
    constraint plan_allowance_pkey primary key (plan_id, allowed, since)
);

create table sepu.account (
    account_id  text        not null,
    plan_id     text,          -- null: it was erased
    erased_plan_id text,       -- the plan that it had then, which may be deleted; null: not erased
    status      text        not null default 'active',
    created_at  timestamptz not null default now(),
    expires_at  timestamptz,   -- from then on as if suspended; null: does not expire
    -- Operators' names for it: customers never see them, and the service never reads them. An external id is unique. No
    -- constraint can enforce that across a distributed Postgres, so the operator's commands check it, one at a time
    -- (lock_external_ids).
    name        sepu.name,          -- null: none
    external_id sepu.external_id,   -- null: none
    -- Secret, and different for each account, so that nobody can choose an idempotency key that has the same lock as
    -- another account's (meter_one). gen_random_uuid has 122 bits of the strong random source.
    lock_seed   bigint      not null default uuid_hash_extended(gen_random_uuid(), 0),
    constraint account_pkey primary key (account_id),
    constraint account_plan_fkey foreign key (plan_id) references sepu.plan (plan_id),
    constraint account_id_form check (account_id ~ '^[a-z2-7]{16}$'),
    constraint account_status_known check (status in ('active', 'suspended', 'erased')),
    constraint account_plan_or_erased
        check (status = 'erased' and plan_id is null and erased_plan_id is not null
               or status <> 'erased' and plan_id is not null and erased_plan_id is null),
    constraint account_external_id_is_no_account_id check (external_id !~ '^[a-z2-7]{16}$')
);

-- Accounts with their status now, which may be expired. An erased one keeps its plan's name, for its bills.
create view sepu.account_now as
select account_id, coalesce(plan_id, erased_plan_id) as plan_id,
       case when status = 'active' and expires_at <= now() then 'expired' else status end as status,
       created_at, expires_at, name, external_id
  from sepu.account;

create table sepu.api_key (
    account_id  text        not null,
    key_hash    bytea       not null,   -- SHA-256 of the key; the key itself is stored nowhere
    key_id      text        not null,
    created_at  timestamptz not null default now(),
    expires_at  timestamptz,            -- null: does not expire
    revoked_at  timestamptz,            -- null: not revoked
    name        sepu.name,              -- null: none
    external_id sepu.external_id,       -- null: none
    used_until  timestamptz,            -- the end of the UTC day of its last use; null: unused
    constraint api_key_pkey primary key (account_id, key_hash),
    constraint api_key_id_unique unique (account_id, key_id),
    constraint api_key_external_id_unique unique (account_id, external_id),
    constraint api_key_account_fkey foreign key (account_id) references sepu.account (account_id)
);

-- The secret of the tag at the end of each key: one row. No migration may change it, or all keys would be refused.
create table sepu.key_secret (
    is_only boolean not null default true,
    secret  bytea   not null,
    constraint key_secret_pkey primary key (is_only),
    constraint key_secret_only check (is_only),
    constraint key_secret_length check (octet_length(secret) = 32)
);

-- Keys that were sent to their owners encrypted. The plain key is stored nowhere, so a repeated rotation returns the
-- receipt from here.
create table sepu.receipt (
    account_id           text        not null,
    rotation_id          text        not null,   -- for one key's rotation: after that key's id and a colon
    thumbprint           text        not null,   -- of the public key that it is encrypted to: RFC 7638, SHA-256
    key_id               text        not null,
    receipt              text        not null,   -- a compact JWE; only its owner's private key opens it
    older_keys_expire_at timestamptz not null,   -- at the latest
    created_at           timestamptz not null default now(),
    constraint receipt_pkey primary key (account_id, rotation_id),
    constraint receipt_key_fkey foreign key (account_id, key_id) references sepu.api_key (account_id, key_id),
    constraint receipt_rotation_id_form check (rotation_id ~ '^[A-Za-z0-9._:-]{1,160}$'),
    constraint receipt_thumbprint_form check (thumbprint ~ '^[A-Za-z0-9_-]{43}$'),
    constraint receipt_encrypted check (receipt ~ '^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+){4}$')
);

-- One counter per account, month and meter: committed = pruned + the units of the stored results, always, and none is
-- negative. The low fill factor keeps its updates on their page (HOT).
create table sepu.usage (
    account_id text    not null,
    period     text    not null,            -- UTC month
    meter      text    not null,
    committed  integer not null,
    reserved   integer not null default 0,  -- always 0: a charge is one step
    pruned     integer not null default 0,  -- units whose stored results were pruned
    dated      integer not null default 0,  -- of these, the units in usage_day: 0 once the account is erased
    events     integer not null default 0,  -- their number, so that an audit notices a lost one
    -- The sums of adjustment: units on top of the plan's limit (at most 147483647, so that an integer holds the total),
    -- and committed units that are not billed.
    granted    integer not null default 0,
    credited   integer not null default 0,
    constraint usage_pkey primary key (account_id, period, meter),
    constraint usage_account_fkey foreign key (account_id) references sepu.account (account_id)
) with (fillfactor = 40);

-- The usage of pruned results by day and key.
create table sepu.usage_day (
    account_id text    not null,
    period     text    not null,
    meter      text    not null,
    day        date    not null,   -- of UTC
    key_id     text    not null,
    units      integer not null,
    constraint usage_day_pkey primary key (account_id, period, meter, day, key_id),
    constraint usage_day_account_fkey foreign key (account_id) references sepu.account (account_id),
    constraint usage_day_units_positive check (units >= 1)
);

-- Operators' changes to a counter: a grant adds units to its limit, a credit takes units off its bill. A row never
-- changes, except that an erasure clears the reason; an opposite row undoes a mistake. The counter has the sums.
create table sepu.adjustment (
    account_id    text        not null,
    adjustment_id uuid        not null,   -- the command's, so that it can be repeated
    kind          text        not null,
    period        text        not null,
    meter         text        not null,
    units         integer     not null,
    adjusted_at   timestamptz not null,
    operator      text        not null,   -- as the command claims
    database_role text        not null,   -- that logged in
    reason        text,                   -- null: the account was erased
    constraint adjustment_pkey primary key (account_id, adjustment_id),
    constraint adjustment_account_fkey foreign key (account_id) references sepu.account (account_id),
    constraint adjustment_kind_known check (kind in ('grant', 'credit')),
    constraint adjustment_units_some check (units <> 0)
);

-- What an idempotency key was charged for, and the response that its retries get. No foreign key: the function that
-- inserts has just read the account, accounts are never deleted, and the check would lock the account's row each time.
create table sepu.stored_result (
    account_id      text        not null,
    idempotency_key text        not null,
    fingerprint     bytea       not null,   -- SHA-256 of the operation and its parsed input
    meter           text        not null,
    units           integer     not null,   -- at least 1
    period          text        not null,   -- the month that was charged
    body            bytea       not null,
    created_at      timestamptz not null,
    key_id          text        not null,
    request_id      uuid        not null,   -- of the charged request; a replay has its own
    constraint stored_result_pkey primary key (account_id, idempotency_key)
);

-- The abuse limit's counters: see count_request. Unlogged: a crash may forget the last minute of requests, and in return
-- a request that charges nothing writes no WAL and waits for no disk.
create unlogged table sepu.request_rate (
    account_id   text        not null,
    window_start timestamptz not null,
    requests     integer     not null,
    constraint request_rate_pkey primary key (account_id)
) with (fillfactor = 40);

-- Thresholds that charges crossed. A counter only grows, so it crosses a threshold of a limit once. So `committed` is at
-- least that percentage of the limit, and at most the limit.
create table sepu.quota_event (
    account_id text        not null,
    period     text        not null,
    meter      text        not null,
    threshold  integer     not null,   -- percent of the limit
    unit_limit integer     not null,   -- in force then
    committed  integer     not null,   -- after the charge that crossed
    crossed_at timestamptz not null,
    constraint quota_event_pkey primary key (account_id, period, meter, threshold, unit_limit),
    constraint quota_event_account_fkey foreign key (account_id) references sepu.account (account_id)
);

-- An event's delivery to the operator's endpoint. If it is deleted, the event stays.
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

-- Every change that an operator's command made, recorded in its transaction: history.py. A row never changes, except
-- that an erasure removes its names. A plan's change has the empty account_id, which a distributed Postgres can place.
create table sepu.change (
    account_id text        not null,
    changed_at timestamptz not null default now(),
    number     bigint      not null,   -- the command's clock, in ns: the order of one transaction's changes
    role       text        not null,   -- of the database, that logged in
    operator   text        not null,   -- as the command claims: SEPU_OPERATOR, or the user's name
    action     text        not null,   -- the command, as account.move
    subject    text        not null,   -- the id of the account, key, plan or event
    before     jsonb,                  -- only what changed; null: there was none
    after      jsonb,                  -- the same; null: deleted
    constraint change_pkey primary key (account_id, changed_at, number),
    constraint change_operator_form check (length(operator) <= 100 and operator !~ '[[:cntrl:]]')
);

-- What each audit found: the console shows the last verdict.
create table sepu.audit_run (
    audited_at  timestamptz not null,
    counters    bigint      not null,
    results     bigint      not null,
    differences bigint      not null,   -- the audit itself lists them
    constraint audit_run_pkey primary key (audited_at)
);

-- A service writes here to learn whether a charge could commit. It takes any unlocked row, so services do not wait for
-- each other; if all are locked, as many commits hang. The low fill factor keeps the updates on their page (HOT).
-- Without accounts, it stays on Citus's coordinator.
create table sepu.probe (
    slot      smallint    not null,
    probed_at timestamptz,           -- null: never
    constraint probe_pkey primary key (slot)
) with (fillfactor = 25);

insert into sepu.plan (plan_id, requests_per_minute) values ('standard', 120);
insert into sepu.plan_limit (plan_id, meter, units)
values ('standard', 'color_match', 2000), ('standard', 'color_search', 1000);
insert into sepu.plan_allowance (plan_id, allowed, since, units)
select plan_id, meter, now(), units from sepu.plan_limit
 union all
select plan_id, 'requestsPerMinute', now(), requests_per_minute from sepu.plan;
insert into sepu.key_secret (secret)
select sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()));
insert into sepu.probe (slot) select i from generate_series(1, 64) i;

-- The functions' answers. Columns that do not apply to the outcome are null.
create type sepu.metered as (
    at         bigint,     -- the request's position in its batch
    outcome    text,
    period     text,
    unit_limit integer,
    committed  integer,
    reserved   integer,
    body       bytea
);
create type sepu.used as (
    at         bigint,     -- as above
    outcome    text,
    plan_id    text,
    period     text,
    meter      text,
    unit_limit integer,
    committed  integer,
    reserved   integer
);
