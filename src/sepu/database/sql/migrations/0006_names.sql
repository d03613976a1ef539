-- Calls that run now are in functions of the release before: see 0005. They store results that know no key.
lock table sepu.api_key in access exclusive mode;

-- What operators call accounts and keys. Customers never see it, nor does the service read it.
--
-- An external id names one account. No constraint says so, because a distributed Postgres has none across accounts: the
-- operator's commands look, one at a time (lock_external_ids.sql).
alter table sepu.account
    drop constraint account_status_known,
    add constraint account_status_known check (status in ('active', 'suspended', 'erased')),
    add column name        text,          -- null: none
    add column external_id text,          -- in the operator's other systems; null: none
    add constraint account_name_form check (name ~ '^\S(.{0,198}\S)?$' and name !~ '[[:cntrl:]]'),
    add constraint account_external_id_form
        check (external_id ~ '^[A-Za-z0-9][A-Za-z0-9._:@/-]{0,127}$' and external_id !~ '^[a-z2-7]{16}$');
alter table sepu.api_key
    add column name        text,          -- null: none
    add column external_id text,          -- null: none
    add column used_until  timestamptz,   -- the end of the UTC day of its last use; null: none yet
    add constraint api_key_name_form check (name ~ '^\S(.{0,198}\S)?$' and name !~ '[[:cntrl:]]'),
    add constraint api_key_external_id_form check (external_id ~ '^[A-Za-z0-9][A-Za-z0-9._:@/-]{0,127}$'),
    add constraint api_key_external_id_unique unique (account_id, external_id);

-- The plans that an account left, and the limits that a plan had before. What holds now is in account and plan_limit.
create table sepu.account_move (
    account_id text        not null,
    moved_at   timestamptz not null,
    from_plan  text        not null,
    to_plan    text        not null,
    constraint account_move_pkey primary key (account_id, moved_at),
    constraint account_move_account_fkey foreign key (account_id) references sepu.account (account_id)
);
create table sepu.plan_change (
    plan_id    text        not null,
    meter      text        not null,
    changed_at timestamptz not null,
    from_units integer     not null,
    to_units   integer     not null,
    constraint plan_change_pkey primary key (plan_id, meter, changed_at),
    constraint plan_change_plan_fkey foreign key (plan_id) references sepu.plan (plan_id)
);

-- Usage by day and key. While a result is stored, it tells them itself; a prune adds it up here. The counters come
-- before the results, as in a prune, or the two would wait for each other in a circle.
--
-- dated: units of `pruned` that usage_day has. The rest was pruned by an earlier release, and nobody knows its days.
alter table sepu.usage add column dated integer not null default 0;
alter table sepu.stored_result add column key_id text;   -- null: charged by an earlier release
create table sepu.usage_day (
    account_id text    not null,
    period     text    not null,
    meter      text    not null,
    day        date    not null,   -- of UTC
    key_id     text    not null,   -- empty: charged by an earlier release
    units      integer not null,
    constraint usage_day_pkey primary key (account_id, period, meter, day, key_id),
    constraint usage_day_account_fkey foreign key (account_id) references sepu.account (account_id),
    constraint usage_day_units_positive check (units >= 1)
);
