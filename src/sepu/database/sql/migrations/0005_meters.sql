-- Calls that run now are in functions of the release before. This waits for those that have read their key. The others
-- wait here, and go on in the old functions after the commit: they find what the rest of those functions reads.
lock table sepu.api_key in access exclusive mode;

-- What a plan allows of each meter in a month. A meter exists where a plan has a limit for it.
create table sepu.plan_limit (
    plan_id text    not null,
    meter   text    not null,
    units   integer not null,
    constraint plan_limit_pkey primary key (plan_id, meter),
    constraint plan_limit_plan_fkey foreign key (plan_id) references sepu.plan (plan_id),
    constraint plan_limit_meter_form check (meter ~ '^[a-z][a-z0-9_]{0,63}$'),
    constraint plan_limit_units_natural check (units >= 0)
);
insert into sepu.plan_limit (plan_id, meter, units) select plan_id, 'color_match', match_limit from sepu.plan;
insert into sepu.plan_limit (plan_id, meter, units) select plan_id, 'color_search', search_limit from sepu.plan;

-- The old columns stay for the calls that run now. Nobody may set them any more: the release before, whose `sepu plan
-- set` still would, is refused instead of changing nothing.
alter table sepu.plan
    alter column match_limit set default 0,
    alter column search_limit set default 0,
    add constraint plan_limits_are_rows check (match_limit = 0 and search_limit = 0) not valid;

-- One of the two counters of an account: see count_request_v2.
alter table sepu.request_rate rename column lane to bucket;
