-- The ledger's functions: one call per request, and each call decides everything. Outcomes are returned, never raised.
-- They are the words of the interface: ok, charged, replayed, or an error code of the contract.
--
-- Time is an argument whose default is the database's clock, so that a test can cross a month.
-- Every statement reads or writes one table by its primary key.
-- Waits for locks end before the gateway's patience does, so that it learns that nothing happened.
--
-- What the service calls runs with the rights of the owner, so that the service's role needs none on the tables; what
-- these call, and what operators call, is for the owner alone. Nobody's search path matters. And a plan that was made
-- while a table was empty, and is kept by its session, must not go on reading the whole of it: hence enable_seqscan.
-- (All three settings together are 2 % of a charge, counted in instructions.)

-- Who asks, and what the plan allows: unauthorized, account_unavailable or ok.
create or replace function sepu.authenticate(
    p_account_id text, p_key_hash bytea, p_now timestamptz,
    out outcome text, out plan_id text, out match_limit integer, out search_limit integer,
    out requests_per_minute integer
) language plpgsql volatile as $$
declare
    v_status text;
begin
    perform from sepu.api_key k
     where k.account_id = p_account_id and k.key_hash = p_key_hash
       and k.revoked_at is null and (k.expires_at is null or k.expires_at > p_now);
    if not found then
        outcome := 'unauthorized';
        return;
    end if;

    select a.status, a.plan_id into v_status, plan_id from sepu.account a where a.account_id = p_account_id;
    if v_status is distinct from 'active' then
        outcome := 'account_unavailable';
        return;
    end if;

    select p.match_limit, p.search_limit, p.requests_per_minute
      into match_limit, search_limit, requests_per_minute
      from sepu.plan p where p.plan_id = authenticate.plan_id;
    outcome := 'ok';
end $$;

-- Counts one request against the abuse limit: true while the account is within it. The window is a minute long and
-- starts with its first request. A request over the limit writes nothing, so a flood costs three reads each.
--
-- A counter is locked until its request commits, and one whose idempotency key is in use must not wait for the request
-- that runs. So there are two counters, and each has a part of the limit for itself: a quarter is lane 1's. Neither ever
-- exceeds its part of a window, which its own row lock ensures, so together they never exceed the limit, whatever they
-- see of each other.
-- * Lane 0 counts by its own counter, and when that is full by lane 1's: alone, all of the limit is there for it.
-- * Lane 1 counts by lane 0's counter when nobody holds it, and otherwise by its own. Requests of lane 0 that count
--   there, and only those, hold its advisory lock exclusively: it is refused then, for it could but wait for them.
--   So while others run it may be told that the limit is reached somewhat early: never late.
--
-- Windows are numbered, for the lanes to agree on them unseen: lane 0 opens its counter's next one, and so does whoever
-- finds that one over and locked. A row of lane 1 with a smaller number is of a window that is over.
create or replace function sepu.count_request(
    p_account_id text, p_lane smallint, p_requests_per_minute integer, p_now timestamptz
) returns boolean language plpgsql volatile as $$
declare
    -- A window in the future is over too: a clock that was set back must not lock an account out.
    v_from     timestamptz := p_now - interval '1 minute';
    v_until    timestamptz := p_now + interval '1 minute';
    v_part     integer     := (p_requests_per_minute::bigint + 2) / 4;  -- lane 1's
    v_window   integer;
    v_requests integer;
begin
    if p_lane = 1 then
        perform from sepu.request_rate r where r.account_id = p_account_id and r.lane = 0 for update skip locked;
    end if;
    if p_lane = 0 or found then
        update sepu.request_rate r
           set requests = case when r.window_start > v_from and r.window_start < v_until then r.requests + 1 else 1 end,
               window_number = case when r.window_start > v_from and r.window_start < v_until then r.window_number
                                    else r.window_number + 1 end,
               window_start = case when r.window_start > v_from and r.window_start < v_until then r.window_start
                                   else p_now end
         where r.account_id = p_account_id and r.lane = 0
           and (r.requests < p_requests_per_minute - v_part or r.window_start <= v_from or r.window_start >= v_until);
        if found then
            return true;
        end if;
    end if;

    select case when r.window_start > v_from and r.window_start < v_until then r.window_number
                else r.window_number + 1 end,
           case when r.window_start > v_from and r.window_start < v_until then r.requests else 0 end
      into v_window, v_requests
      from sepu.request_rate r
     where r.account_id = p_account_id and r.lane = 0;
    if not found and p_lane = 0 then
        insert into sepu.request_rate (account_id, lane, window_number, window_start, requests)
        values (p_account_id, 0, 1, p_now, 1)
        on conflict (account_id, lane) do nothing;
        return found or sepu.count_request(p_account_id, p_lane, p_requests_per_minute, p_now);
    end if;
    v_window := coalesce(v_window, 1);
    -- Less than its part after the limit was lowered.
    v_part := least(v_part, p_requests_per_minute - coalesce(v_requests, 0));

    -- Looked at before it is locked.
    perform from sepu.request_rate r
      where r.account_id = p_account_id and r.lane = 1
        and (r.window_number > v_window or r.window_number = v_window and r.requests >= v_part);
    if found or v_part < 1 then
        return false;
    end if;
    if p_lane = 0 then
        perform pg_advisory_xact_lock(hashtextextended(p_account_id, 2));
    elsif not pg_try_advisory_xact_lock_shared(hashtextextended(p_account_id, 2)) then
        return false;
    end if;
    insert into sepu.request_rate as r (account_id, lane, window_number, window_start, requests)
    values (p_account_id, 1, v_window, p_now, 1)
    on conflict (account_id, lane) do update
       set requests = case when r.window_number = excluded.window_number then r.requests + 1 else 1 end,
           window_number = excluded.window_number,
           window_start = excluded.window_start
     where r.window_number < v_window or r.window_number = v_window and r.requests < v_part;
    return found;
end $$;

-- A request that charges nothing: unauthorized, account_unavailable, rate_limited or ok.
create or replace function sepu.admit_one(
    p_account_id text, p_key_hash bytea, p_now timestamptz,
    out outcome text
) language plpgsql volatile as $$
declare
    v_auth record;
begin
    v_auth := sepu.authenticate(p_account_id, p_key_hash, p_now);
    if v_auth.outcome <> 'ok' then
        outcome := v_auth.outcome;
    elsif sepu.count_request(p_account_id, 0::smallint, v_auth.requests_per_minute, p_now) then
        outcome := 'ok';
    else
        outcome := 'rate_limited';
    end if;
end $$;

-- Both meters of the current month.
create or replace function sepu.read_usage_one(
    p_account_id text, p_key_hash bytea, p_now timestamptz,
    out outcome text, out plan_id text, out period text,
    out match_limit integer, out match_committed integer, out match_reserved integer,
    out search_limit integer, out search_committed integer, out search_reserved integer
) language plpgsql volatile as $$
declare
    v_auth record;
begin
    v_auth := sepu.authenticate(p_account_id, p_key_hash, p_now);
    outcome := v_auth.outcome;
    if outcome <> 'ok' then
        return;
    end if;
    if not sepu.count_request(p_account_id, 0::smallint, v_auth.requests_per_minute, p_now) then
        outcome := 'rate_limited';
        return;
    end if;

    plan_id := v_auth.plan_id;
    period := to_char(p_now at time zone 'UTC', 'YYYY-MM');
    match_limit := v_auth.match_limit;
    search_limit := v_auth.search_limit;
    select coalesce(max(u.committed) filter (where u.meter = 'color_match'), 0),
           coalesce(max(u.reserved) filter (where u.meter = 'color_match'), 0),
           coalesce(max(u.committed) filter (where u.meter = 'color_search'), 0),
           coalesce(max(u.reserved) filter (where u.meter = 'color_search'), 0)
      into match_committed, match_reserved, search_committed, search_reserved
      from sepu.usage u
     where u.account_id = p_account_id and u.period = read_usage_one.period;
end $$;

-- A metered request: charges and stores its response, or replays the stored one, or refuses. All or nothing.
--
-- Whoever executes holds two advisory locks until its commit: one for the key with this input, then one for the key.
-- Neither is waited for. Not getting the first means that the same input is running. Getting the first but not the
-- second means that the key's holder has another input, for it would hold the first as well.
-- Should two executions ever pass (they cannot on one node), the primary key of stored_result refuses the second.
--
-- `lane` tells by which counter of the abuse limit it was counted; `p_busy_lane` is the one for a key in use.
create or replace function sepu.meter_one(
    p_account_id text, p_key_hash bytea, p_idempotency_key text, p_fingerprint bytea,
    p_meter text, p_units integer, p_body bytea, p_now timestamptz, p_busy_lane smallint,
    out outcome text, out period text, out unit_limit integer, out committed integer, out reserved integer,
    out body bytea, out lane smallint
) language plpgsql volatile as $$
#variable_conflict use_column
declare
    v_auth        record;
    v_key         text := p_account_id || ':' || p_idempotency_key;
    v_input_free  boolean;
    v_key_free    boolean := false;
    v_fingerprint bytea;
    v_units       integer;
begin
    v_auth := sepu.authenticate(p_account_id, p_key_hash, p_now);
    outcome := v_auth.outcome;
    if outcome <> 'ok' then
        return;
    end if;

    -- The seeds keep the two kinds apart.
    v_input_free := pg_try_advisory_xact_lock(hashtextextended(v_key, hashbyteaextended(p_fingerprint, 1)));
    if v_input_free then
        v_key_free := pg_try_advisory_xact_lock(hashtextextended(v_key, 0));
    end if;
    -- The running request holds its lane's counter until it commits; one that is refused for its sake must not wait.
    lane := case when v_key_free then 0 else p_busy_lane end;
    if not sepu.count_request(p_account_id, lane, v_auth.requests_per_minute, p_now) then
        outcome := 'rate_limited';
        return;
    end if;

    -- Read after the locks were tried: what was running then and has committed since is seen here.
    select s.fingerprint, s.period, s.body into v_fingerprint, period, body
      from sepu.stored_result s
     where s.account_id = p_account_id and s.idempotency_key = p_idempotency_key;
    if found and v_fingerprint <> p_fingerprint or not found and v_input_free and not v_key_free then
        outcome := 'idempotency_conflict';
        period := null;
        body := null;
        return;
    elsif not found and not v_input_free then
        outcome := 'request_in_progress';
        return;
    end if;
    unit_limit := case when p_meter = 'color_match' then v_auth.match_limit else v_auth.search_limit end;
    if found then
        outcome := 'replayed';
        select u.committed, u.reserved into committed, reserved
          from sepu.usage u
         where u.account_id = p_account_id and u.period = meter_one.period and u.meter = p_meter;
        return;
    end if;

    period := to_char(p_now at time zone 'UTC', 'YYYY-MM');
    loop
        -- What does not fit is not locked: a lock is written to the log, and a refusal would wait for the disk.
        update sepu.usage u set committed = u.committed + p_units
         where u.account_id = p_account_id and u.period = meter_one.period and u.meter = p_meter
           and u.committed::bigint + u.reserved + p_units <= unit_limit
        returning u.committed, u.reserved into committed, reserved;
        exit when found;

        select u.committed, u.reserved into committed, reserved
          from sepu.usage u
         where u.account_id = p_account_id and u.period = meter_one.period and u.meter = p_meter;
        committed := coalesce(committed, 0);
        reserved := coalesce(reserved, 0);
        if committed::bigint + reserved + p_units > unit_limit then
            outcome := 'quota_exceeded';
            return;
        end if;
        insert into sepu.usage (account_id, period, meter, committed) values (p_account_id, meter_one.period, p_meter, 0)
        on conflict (account_id, period, meter) do nothing;
    end loop;

    -- No gateway sends what is not of this form. It has no units here, which the table refuses.
    v_units := case when length(p_idempotency_key) between 8 and 128 and octet_length(p_fingerprint) = 32
                     and p_meter in ('color_match', 'color_search') and octet_length(p_body) between 2 and 65536
                    then p_units else 0 end;
    insert into sepu.stored_result
        (account_id, idempotency_key, fingerprint, meter, units, period, body, created_at)
    values
        (p_account_id, p_idempotency_key, p_fingerprint, p_meter, v_units, meter_one.period, p_body, p_now);
    outcome := 'charged';
    body := p_body;
end $$;

-- What the service calls. Each of these has a twin that takes several requests at a time, in one transaction: `at` is a
-- request's position in the arrays, from 1. A twin takes them in the order of their accounts, so that two of them
-- do not wait for each other in a circle; and it waits less long for others' locks, because all of its requests do,
-- and the gateway can then repeat them. If it fails, the error's detail is the position of the request to blame.
create or replace function sepu.admit(
    p_account_id text, p_key_hash bytea, p_now timestamptz default now(), out outcome text
) language plpgsql volatile security definer
  set search_path = pg_catalog, pg_temp set enable_seqscan = off set lock_timeout = '800ms' as $$
begin
    outcome := sepu.admit_one(p_account_id, p_key_hash, p_now);
end $$;

create or replace function sepu.admit_each(
    p_account_ids text[], p_key_hashes bytea[], p_now timestamptz default now()
) returns table (at bigint, outcome text) language plpgsql volatile security definer
  set search_path = pg_catalog, pg_temp set enable_seqscan = off set lock_timeout = '200ms' as $$
declare
    v    record;
    v_at bigint;
begin
    for v in
        select r.* from unnest(p_account_ids, p_key_hashes) with ordinality as r (account_id, key_hash, at)
         order by r.account_id, r.at
    loop
        v_at := v.at;
        return query select v.at, a.* from sepu.admit_one(v.account_id, v.key_hash, p_now) a;
    end loop;
exception when others then
    raise exception using errcode = sqlstate, message = sqlerrm, detail = coalesce(v_at::text, '');
end $$;

create or replace function sepu.read_usage(
    p_account_id text, p_key_hash bytea, p_now timestamptz default now(),
    out outcome text, out plan_id text, out period text,
    out match_limit integer, out match_committed integer, out match_reserved integer,
    out search_limit integer, out search_committed integer, out search_reserved integer
) language plpgsql volatile security definer
  set search_path = pg_catalog, pg_temp set enable_seqscan = off set lock_timeout = '800ms' as $$
begin
    select * into outcome, plan_id, period,
                  match_limit, match_committed, match_reserved, search_limit, search_committed, search_reserved
      from sepu.read_usage_one(p_account_id, p_key_hash, p_now);
end $$;

create or replace function sepu.read_usage_each(
    p_account_ids text[], p_key_hashes bytea[], p_now timestamptz default now()
) returns table (
    at bigint, outcome text, plan_id text, period text,
    match_limit integer, match_committed integer, match_reserved integer,
    search_limit integer, search_committed integer, search_reserved integer
) language plpgsql volatile security definer
  set search_path = pg_catalog, pg_temp set enable_seqscan = off set lock_timeout = '200ms' as $$
declare
    v    record;
    v_at bigint;
begin
    for v in
        select r.* from unnest(p_account_ids, p_key_hashes) with ordinality as r (account_id, key_hash, at)
         order by r.account_id, r.at
    loop
        v_at := v.at;
        return query select v.at, u.* from sepu.read_usage_one(v.account_id, v.key_hash, p_now) u;
    end loop;
exception when others then
    raise exception using errcode = sqlstate, message = sqlerrm, detail = coalesce(v_at::text, '');
end $$;

create or replace function sepu.meter_request(
    p_account_id text, p_key_hash bytea, p_idempotency_key text, p_fingerprint bytea,
    p_meter text, p_units integer, p_body bytea, p_now timestamptz default now(),
    out outcome text, out period text, out unit_limit integer, out committed integer, out reserved integer,
    out body bytea
) language plpgsql volatile security definer
  set search_path = pg_catalog, pg_temp set enable_seqscan = off set lock_timeout = '800ms' as $$
declare
    v record;
begin
    v := sepu.meter_one(
        p_account_id, p_key_hash, p_idempotency_key, p_fingerprint, p_meter, p_units, p_body, p_now, 1::smallint);
    outcome := v.outcome;
    period := v.period;
    unit_limit := v.unit_limit;
    committed := v.committed;
    reserved := v.reserved;
    body := v.body;
end $$;

create or replace function sepu.meter_request_each(
    p_account_ids text[], p_key_hashes bytea[], p_idempotency_keys text[], p_fingerprints bytea[],
    p_meters text[], p_units integer[], p_bodies bytea[], p_now timestamptz default now()
) returns table (
    at bigint, outcome text, period text, unit_limit integer, committed integer, reserved integer, body bytea
) language plpgsql volatile security definer
  set search_path = pg_catalog, pg_temp set enable_seqscan = off set lock_timeout = '200ms' as $$
declare
    v           record;
    v_one       record;
    v_account   text := '';
    v_busy_lane smallint;
    v_at        bigint;
begin
    for v in
        select r.*
          from unnest(p_account_ids, p_key_hashes, p_idempotency_keys, p_fingerprints, p_meters, p_units, p_bodies)
               with ordinality as r (account_id, key_hash, idempotency_key, fingerprint, meter, units, body, at)
         order by r.account_id, r.at
    loop
        v_at := v.at;
        -- Whoever holds an account's lane 0 here counts there, or two of these calls could wait for each other: one holds
        -- the first and waits for the second, the other the reverse. At the instant when lane 0's part becomes full
        -- they still could; then this call's short wait ends it, and its requests are repeated.
        if v.account_id <> v_account then
            v_account := v.account_id;
            v_busy_lane := 1;
        end if;
        v_one := sepu.meter_one(
            v.account_id, v.key_hash, v.idempotency_key, v.fingerprint, v.meter, v.units, v.body, p_now, v_busy_lane);
        if v_one.lane = 0 then
            v_busy_lane := 0;
        end if;
        at := v.at;
        outcome := v_one.outcome;
        period := v_one.period;
        unit_limit := v_one.unit_limit;
        committed := v_one.committed;
        reserved := v_one.reserved;
        body := v_one.body;
        return next;
    end loop;
exception when others then
    raise exception using errcode = sqlstate, message = sqlerrm, detail = coalesce(v_at::text, '');
end $$;

-- Deletes up to p_limit results of one counter that are older than p_days, and counts their units as pruned.
--
-- The counter is locked first, as by a charge, and leads to the results: what no counter has charged is never deleted.
-- An account's results are found by their primary key. An index on created_at would cost each charge a write, to save
-- a reading of the account's few thousand rows once in three months.
create or replace function sepu.prune_results(
    p_account_id text, p_period text, p_meter text, p_days integer, p_limit integer, p_now timestamptz default now(),
    out results integer, out units integer
) language plpgsql volatile as $$
begin
    perform from sepu.usage u
     where u.account_id = p_account_id and u.period = p_period and u.meter = p_meter for update;
    with gone as (
        delete from sepu.stored_result s
         where s.account_id = p_account_id and s.idempotency_key in (
                   select o.idempotency_key from sepu.stored_result o
                    where o.account_id = p_account_id and o.period = p_period and o.meter = p_meter
                      and o.created_at < p_now - make_interval(hours => 24 * p_days)
                    limit p_limit)
        returning s.units
    )
    select count(*), coalesce(sum(g.units), 0) into results, units from gone g;
    if results > 0 then
        update sepu.usage u set pruned = u.pruned + prune_results.units
         where u.account_id = p_account_id and u.period = p_period and u.meter = p_meter;
    end if;
end $$;

-- The roles that serve are granted by name what they call.
revoke execute on all functions in schema sepu from public;
