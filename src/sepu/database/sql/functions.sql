-- The ledger's functions. A request calls one of them, and that call decides everything. It returns its outcome, never
-- raises it: ok, charged, replayed, or an error code of the contract.
--
-- The time is an argument so that a test can cross into another month. Its default is the database's clock; on Citus,
-- that of the account's node. The functions that the service calls refuse an instant more than a day from that clock;
-- those that they call do not.
-- Each statement of a request reads or writes one table, by its primary key.
-- Lock waits time out before the worker does, so it usually learns that the call failed and changed nothing.
--
-- The functions that the service calls run with the owner's rights, so the service's role needs none on the tables,
-- except to read sepu.migration. No call depends on the caller's search path. A session may keep a query plan that it
-- made while a table was empty. enable_seqscan is off so that such a plan does not scan the whole table later.
-- (search_path, enable_seqscan and lock_timeout together take 2% of a charge's instructions.)
--
-- The calls between functions. meter_request, read_usage and admit each have a batch form, `..._batch`, which calls the
-- same functions for each request.
--   meter_request -> meter_one      -> authenticate, count_request, is_limited, record_events
--   count_request -> is_limited
--   read_usage    -> read_usage_one -> authenticate, count_request
--   admit         -> admit_one      -> authenticate, count_request
--   broken_settings, node_state -> needed_settings
--   meter_request -> check_node, on Citus
-- All six call check_instant, unless the instant is their own now(): an expression with fewer parts takes less.


-- 1. Functions that the service does not call directly.

-- Refuses an instant that is more than a day from the database's clock, or null.
create or replace function sepu.check_instant(p_now timestamptz) returns void language plpgsql stable as $$
begin
    if (p_now between now() - interval '24 hours' and now() + interval '24 hours') is not true then
        raise exception using errcode = '22023', message = 'the instant is more than a day from the database''s clock';
    end if;
end $$;

-- Looks up the key, its account and the account's plan. The outcome is unauthorized, account_unavailable or ok.
--
-- Records a key's first use each day, but never waits for the key's row. If another request holds the row, it is
-- writing the same value. If an operator's command holds it, the next use is recorded.
create or replace function sepu.authenticate(
    p_account_id text, p_key_hash bytea, p_now timestamptz,
    out outcome text, out plan_id text, out requests_per_minute integer, out key_id text, out lock_seed bigint
) language plpgsql volatile as $$
declare
    v_status     text;
    v_expires_at timestamptz;
    v_used_today boolean;
begin
    select k.key_id, k.used_until > p_now into key_id, v_used_today from sepu.api_key k
     where k.account_id = p_account_id and k.key_hash = p_key_hash
       and k.revoked_at is null and (k.expires_at is null or k.expires_at > p_now);
    if not found then
        outcome := 'unauthorized';
        return;
    end if;

    select a.status, a.plan_id, a.expires_at, a.lock_seed into v_status, plan_id, v_expires_at, lock_seed
      from sepu.account a where a.account_id = p_account_id;
    if v_status is distinct from 'active' or v_expires_at <= p_now then
        outcome := 'account_unavailable';
        return;
    end if;

    select p.requests_per_minute into requests_per_minute
      from sepu.plan p where p.plan_id = authenticate.plan_id;
    outcome := 'ok';

    if v_used_today is not true then
        perform from sepu.api_key k
          where k.account_id = p_account_id and k.key_hash = p_key_hash
            and (k.used_until is null or k.used_until <= p_now)
            for no key update skip locked;
        if found then
            update sepu.api_key k set used_until = date_trunc('day', p_now, 'UTC') + interval '24 hours'
             where k.account_id = p_account_id and k.key_hash = p_key_hash;
        end if;
    end if;
end $$;

-- Returns whether the account has used up its requests in the current window. Never waits for a lock.
--
-- A window lasts for a minute from its first request. A window that starts far in the future counts as over, so
-- that setting a clock back blocks no account for long.
create or replace function sepu.is_limited(
    p_account_id text, p_requests_per_minute integer, p_now timestamptz
) returns boolean language plpgsql volatile as $$
begin
    perform from sepu.request_rate r
      where r.account_id = p_account_id and r.requests >= p_requests_per_minute
        and r.window_start > p_now - interval '1 minute' and r.window_start < p_now + interval '1 minute';
    return found;
end $$;

-- Counts one request against the abuse limit. Returns whether the account is within it. A request over the limit writes
-- nothing. The counter stays locked until the request commits, so an account's requests are counted one by one.
--
-- The two variables exist because Citus rejects the sum of a timestamp and an interval in an upsert's condition.
create or replace function sepu.count_request(
    p_account_id text, p_requests_per_minute integer, p_now timestamptz
) returns boolean language plpgsql volatile as $$
declare
    v_from  timestamptz := p_now - interval '1 minute';
    v_until timestamptz := p_now + interval '1 minute';
begin
    update sepu.request_rate r set requests = r.requests + 1
     where r.account_id = p_account_id and r.requests < p_requests_per_minute
       and r.window_start > v_from and r.window_start < v_until;
    if found then
        return true;
    elsif sepu.is_limited(p_account_id, p_requests_per_minute, p_now) then
        return false;
    end if;
    insert into sepu.request_rate as r (account_id, window_start, requests) values (p_account_id, p_now, 1)
    on conflict (account_id) do update set requests = 1, window_start = excluded.window_start
     where r.window_start <= v_from or r.window_start >= v_until;
    -- If nothing was stored, another request has just opened a window: count this request in it.
    return found or sepu.count_request(p_account_id, p_requests_per_minute, p_now);
end $$;

-- Admits a request that charges nothing. The outcome is unauthorized, account_unavailable, rate_limited or ok.
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
    elsif sepu.count_request(p_account_id, v_auth.requests_per_minute, p_now) then
        outcome := 'ok';
    else
        outcome := 'rate_limited';
    end if;
end $$;

-- Reads the usage of the current month, one row for each meter. A refusal is one row that has only an outcome.
--
-- The limit is the plan's limit plus the units granted. Both are bounded so that the sum fits in an integer.
create or replace function sepu.read_usage_one(
    p_account_id text, p_key_hash bytea, p_now timestamptz
) returns setof sepu.used language plpgsql volatile as $$
declare
    v_auth       record;
    v            sepu.used;
    v_plan_limit integer;
begin
    v_auth := sepu.authenticate(p_account_id, p_key_hash, p_now);
    v.outcome := v_auth.outcome;
    if v.outcome = 'ok' and not sepu.count_request(p_account_id, v_auth.requests_per_minute, p_now) then
        v.outcome := 'rate_limited';
    end if;
    if v.outcome <> 'ok' then
        return next v;
        return;
    end if;

    v.plan_id := v_auth.plan_id;
    v.period := to_char(p_now at time zone 'UTC', 'YYYY-MM');
    for v.meter, v_plan_limit in
        select l.meter, l.units from sepu.plan_limit l where l.plan_id = v_auth.plan_id order by l.meter
    loop
        select u.committed, u.reserved, v_plan_limit + u.granted
          into v.committed, v.reserved, v.unit_limit
          from sepu.usage u
         where u.account_id = p_account_id and u.period = v.period and u.meter = v.meter;
        if not found then
            v.committed := 0;
            v.reserved := 0;
            v.unit_limit := v_plan_limit;
        end if;
        return next v;
    end loop;
    if not found then  -- a plan without limits gives one row without a meter
        return next v;
    end if;
end $$;

-- Records an event for each threshold that a charge of p_units crossed, and makes it due for delivery immediately.
--
-- The counter, locked by the charge, is normally at a new high, so the event is new. If not (it was lowered by hand),
-- the charge must still succeed.
create or replace function sepu.record_events(
    p_account_id text, p_period text, p_meter text, p_thresholds bigint[], p_unit_limit integer, p_committed integer,
    p_units integer, p_now timestamptz
) returns void language plpgsql volatile as $$
declare
    v_threshold integer;
begin
    foreach v_threshold in array p_thresholds loop
        continue when v_threshold <= (p_committed - p_units) * 100::bigint / p_unit_limit
                   or v_threshold > p_committed * 100::bigint / p_unit_limit;
        insert into sepu.quota_event (account_id, period, meter, threshold, unit_limit, committed, crossed_at)
        values (p_account_id, p_period, p_meter, v_threshold, p_unit_limit, p_committed, p_now)
        on conflict (account_id, period, meter, threshold, unit_limit) do nothing;
        if found then
            insert into sepu.event_delivery (account_id, period, meter, threshold, unit_limit, due_at)
            values (p_account_id, p_period, p_meter, v_threshold, p_unit_limit, p_now);
            update sepu.usage u set events = u.events + 1
             where u.account_id = p_account_id and u.period = p_period and u.meter = p_meter;
        end if;
    end loop;
end $$;

-- Charges a metered request and stores its response, or replays the stored response, or refuses. All or nothing.
--
-- A request takes two advisory locks and holds them until it commits: first one for its idempotency key and input, then
-- one for its idempotency key alone. It waits for neither. If the first is taken, a request with the same input is
-- running. If only the second is taken, the request that holds it has a different input; otherwise it would hold the
-- first lock too. A request refused over a lock is not counted: the running request holds the rate counter.
--
-- A lock's number is a hash of the key, seeded by the account's secret lock_seed; the first lock's is a hash of the
-- input, seeded by the second's. Without a seed anybody could compute a key of their own that has the number of another
-- account's, because the hash can be inverted. With it, two accounts' keys meet by chance, 2^-64 for a pair: the hash
-- maps the seeds of a key one to one into its state, so no choice of the key makes a number likelier. Requests show
-- nothing of a number unless two meet.
--
-- If two requests with the same key run together (one of them may still run this function's previous version), the
-- primary key of stored_result refuses the second.
create or replace function sepu.meter_one(
    p_account_id text, p_key_hash bytea, p_idempotency_key text, p_fingerprint bytea,
    p_meter text, p_units integer, p_body bytea, p_request_id uuid, p_now timestamptz
) returns sepu.metered language plpgsql volatile as $$
declare
    v             sepu.metered;
    v_auth        record;
    v_key         bigint;
    v_input_free  boolean;
    v_key_free    boolean := false;
    v_fingerprint bytea;
    v_plan_limit  integer;
    v_thresholds  bigint[];
begin
    v_auth := sepu.authenticate(p_account_id, p_key_hash, p_now);
    v.outcome := v_auth.outcome;
    if v.outcome <> 'ok' then
        return v;
    end if;

    v_key := hashtextextended(p_idempotency_key, v_auth.lock_seed);
    v_input_free := pg_try_advisory_xact_lock(hashtextextended(encode(p_fingerprint, 'hex'), v_key));
    if v_input_free then
        v_key_free := pg_try_advisory_xact_lock(v_key);
    end if;
    -- Read this only after trying the locks, to see the result of a request that held one and has just committed.
    select s.fingerprint, s.period, s.body into v_fingerprint, v.period, v.body
      from sepu.stored_result s
     where s.account_id = p_account_id and s.idempotency_key = p_idempotency_key;
    if v_fingerprint is null and not v_key_free then
        v.outcome := case when sepu.is_limited(p_account_id, v_auth.requests_per_minute, p_now) then 'rate_limited'
                          when v_input_free then 'idempotency_conflict' else 'request_in_progress' end;
        return v;
    elsif not sepu.count_request(p_account_id, v_auth.requests_per_minute, p_now) then
        v.outcome := 'rate_limited';
    elsif v_fingerprint <> p_fingerprint then
        v.outcome := 'idempotency_conflict';
    end if;
    if v.outcome <> 'ok' then
        v.period := null;
        v.body := null;
        return v;
    end if;
    select l.units, l.thresholds into v_plan_limit, v_thresholds
      from sepu.plan_limit l
     where l.plan_id = v_auth.plan_id and l.meter = p_meter;
    if v_plan_limit is null then
        raise exception using errcode = '22023',
            message = format('plan %s has no limit for the meter %s', v_auth.plan_id, p_meter);
    end if;
    if v_fingerprint = p_fingerprint then
        v.outcome := 'replayed';
        select u.committed, u.reserved, v_plan_limit + u.granted
          into v.committed, v.reserved, v.unit_limit
          from sepu.usage u
         where u.account_id = p_account_id and u.period = v.period and u.meter = p_meter;
        return v;
    end if;

    -- Checked here, because check constraints on the tables would make each charge cost more. Nulls are refused too.
    if (p_units >= 1 and length(p_idempotency_key) between 8 and 128 and octet_length(p_fingerprint) = 32
        and octet_length(p_body) between 2 and 65536) is not true then
        raise exception using errcode = '22023',
            message = 'no units, or idempotency key, fingerprint or body of invalid length';
    end if;
    v.period := to_char(p_now at time zone 'UTC', 'YYYY-MM');
    loop
        -- A charge over the limit does not lock the counter. Locking writes to the WAL, so the refusal would wait for
        -- the disk.
        update sepu.usage u set committed = u.committed + p_units
         where u.account_id = p_account_id and u.period = v.period and u.meter = p_meter
           and p_units <= v_plan_limit + u.granted - u.committed - u.reserved
        returning u.committed, u.reserved, v_plan_limit + u.granted
          into v.committed, v.reserved, v.unit_limit;
        exit when found;

        select u.committed, u.reserved, v_plan_limit + u.granted
          into v.committed, v.reserved, v.unit_limit
          from sepu.usage u
         where u.account_id = p_account_id and u.period = v.period and u.meter = p_meter;
        if not found then
            v.committed := 0;
            v.reserved := 0;
            v.unit_limit := v_plan_limit;
        end if;
        if v.committed::bigint + v.reserved + p_units > v.unit_limit then
            v.outcome := 'quota_exceeded';
            return v;
        end if;
        insert into sepu.usage (account_id, period, meter, committed)
        values (p_account_id, v.period, p_meter, 0)
        on conflict (account_id, period, meter) do nothing;
    end loop;

    insert into sepu.stored_result
        (account_id, idempotency_key, fingerprint, meter, units, period, body, created_at, key_id, request_id)
    values
        (p_account_id, p_idempotency_key, p_fingerprint, p_meter, p_units, v.period, p_body, p_now,
         v_auth.key_id, p_request_id);
    -- Compares how many thresholds were reached before and after this charge.
    if width_bucket(v.committed * 100::bigint / v.unit_limit, v_thresholds)
       > width_bucket((v.committed - p_units) * 100::bigint / v.unit_limit, v_thresholds) then
        perform sepu.record_events(
            p_account_id, v.period, p_meter, v_thresholds, v.unit_limit, v.committed, p_units, p_now);
    end if;
    v.outcome := 'charged';
    v.body := p_body;
    return v;
end $$;


-- The settings that the ledger's promises rely on, and their accepted values. A session inherits most of them from
-- its role and database. `client_encoding`, DateStyle and TimeZone are not here: hosts.py sets them for each
-- connection.
--   default_transaction_isolation: at a higher level, an account's simultaneous charges fail.
--   synchronous_commit: with a weaker value, an answered charge can be lost.
--   session_replication_role: `replica` turns foreign keys off.
--   track_activities: if off, nothing shows that commits are waiting for a silent standby.
--   zero_damaged_pages, ignore_checksum_failure: if on, damaged rows go missing or are read as is.
--   fsync, full_page_writes: if off, an answered charge can be lost. They are server-wide: `sepu db check` checks them,
--     and each charge on a worker of a Citus cluster.
create or replace function sepu.needed_settings() returns table (name text, accepted text[], inherited boolean)
language sql immutable as $$
    values ('default_transaction_isolation', array['read committed'], true),
           ('synchronous_commit', array['on', 'remote_apply'], true),
           ('session_replication_role', array['origin', 'local'], true),
           ('track_activities', array['on'], true),
           ('zero_damaged_pages', array['off'], true),
           ('ignore_checksum_failure', array['off'], true),
           ('fsync', array['on'], false),
           ('full_page_writes', array['on'], false)
$$;


-- Refuses to charge on a worker of a Citus cluster whose settings break a guarantee. The service's own sessions are on
-- the coordinator, so they do not see these. This is one expression, which Postgres evaluates without a query, because
-- each charge pays for it. A test compares it with needed_settings.
create or replace function sepu.check_node() returns void language plpgsql stable as $$
begin
    if current_setting('default_transaction_isolation') <> all ('{read committed}')
       or current_setting('synchronous_commit') <> all ('{on,remote_apply}')
       or current_setting('session_replication_role') <> all ('{origin,local}')
       or current_setting('track_activities') <> all ('{on}')
       or current_setting('zero_damaged_pages') <> all ('{off}')
       or current_setting('ignore_checksum_failure') <> all ('{off}')
       or current_setting('fsync') <> all ('{on}')
       or current_setting('full_page_writes') <> all ('{on}') then
        raise exception using errcode = '55000', message = (
            select string_agg(format('%s is %s instead of %s', n.name, current_setting(n.name),
                                     array_to_string(n.accepted, ' or ')), ', ')
              from sepu.needed_settings() n
             where current_setting(n.name) <> all (n.accepted));
    end if;
end $$;


-- 2. Functions that the service calls.
--
-- A function for batches, `..._batch`, serves several requests in one transaction. `at` is a request's 1-based position
-- in the arrays. Requests are served in account order, so that two batches do not deadlock. The lock
-- timeout is shorter because all requests in the batch wait, and the worker can send them again. If the function fails,
-- the error's detail is the position of the request to blame.
create or replace function sepu.admit(
    p_account_id text, p_key_hash bytea, p_now timestamptz default now(), out outcome text
) language plpgsql volatile security definer
  set search_path = pg_catalog, pg_temp set enable_seqscan = off set lock_timeout = '800ms' as $$
begin
    if p_now is distinct from now() then
        perform sepu.check_instant(p_now);
    end if;
    outcome := sepu.admit_one(p_account_id, p_key_hash, p_now);
end $$;

create or replace function sepu.admit_batch(
    p_account_ids text[], p_key_hashes bytea[], p_now timestamptz default now()
) returns table (at bigint, outcome text) language plpgsql volatile security definer
  set search_path = pg_catalog, pg_temp set enable_seqscan = off set lock_timeout = '200ms' as $$
declare
    v    record;
    v_at bigint;
begin
    if p_now is distinct from now() then
        perform sepu.check_instant(p_now);
    end if;
    for v in
        select r.* from unnest(p_account_ids, p_key_hashes) with ordinality as r (account_id, key_hash, at)
         order by r.account_id, r.at
    loop
        v_at := v.at;
        at := v.at;
        outcome := sepu.admit_one(v.account_id, v.key_hash, p_now);
        return next;
    end loop;
exception when others then
    raise exception using errcode = sqlstate, message = sqlerrm, detail = coalesce(v_at::text, '');
end $$;

create or replace function sepu.read_usage(
    p_account_id text, p_key_hash bytea, p_now timestamptz default now()
) returns setof sepu.used language plpgsql volatile security definer
  set search_path = pg_catalog, pg_temp set enable_seqscan = off set lock_timeout = '800ms' as $$
begin
    if p_now is distinct from now() then
        perform sepu.check_instant(p_now);
    end if;
    return query select u.* from sepu.read_usage_one(p_account_id, p_key_hash, p_now) u;
end $$;

create or replace function sepu.read_usage_batch(
    p_account_ids text[], p_key_hashes bytea[], p_now timestamptz default now()
) returns setof sepu.used language plpgsql volatile security definer
  set search_path = pg_catalog, pg_temp set enable_seqscan = off set lock_timeout = '200ms' as $$
declare
    v      record;
    v_used sepu.used;
    v_at   bigint;
begin
    if p_now is distinct from now() then
        perform sepu.check_instant(p_now);
    end if;
    for v in
        select r.* from unnest(p_account_ids, p_key_hashes) with ordinality as r (account_id, key_hash, at)
         order by r.account_id, r.at
    loop
        v_at := v.at;
        for v_used in select u.* from sepu.read_usage_one(v.account_id, v.key_hash, p_now) u loop
            v_used.at := v.at;
            return next v_used;
        end loop;
    end loop;
exception when others then
    raise exception using errcode = sqlstate, message = sqlerrm, detail = coalesce(v_at::text, '');
end $$;

create or replace function sepu.meter_request(
    p_account_id text, p_key_hash bytea, p_idempotency_key text, p_fingerprint bytea,
    p_meter text, p_units integer, p_body bytea, p_request_id uuid, p_now timestamptz default now()
) returns sepu.metered language plpgsql volatile security definer
  set search_path = pg_catalog, pg_temp set enable_seqscan = off set lock_timeout = '800ms' as $$
begin
    if p_now is distinct from now() then
        perform sepu.check_instant(p_now);
    end if;
    if current_setting('citus.shard_count', true) is not null then
        perform sepu.check_node();
    end if;
    return sepu.meter_one(
        p_account_id, p_key_hash, p_idempotency_key, p_fingerprint, p_meter, p_units, p_body, p_request_id, p_now);
end $$;

create or replace function sepu.meter_request_batch(
    p_account_ids text[], p_key_hashes bytea[], p_idempotency_keys text[], p_fingerprints bytea[],
    p_meters text[], p_units integer[], p_bodies bytea[], p_request_ids uuid[], p_now timestamptz default now()
) returns setof sepu.metered language plpgsql volatile security definer
  set search_path = pg_catalog, pg_temp set enable_seqscan = off set lock_timeout = '200ms' as $$
declare
    v         record;
    v_metered sepu.metered;
    v_at      bigint;
begin
    if p_now is distinct from now() then
        perform sepu.check_instant(p_now);
    end if;
    for v in
        select r.*
          from unnest(p_account_ids, p_key_hashes, p_idempotency_keys, p_fingerprints, p_meters, p_units, p_bodies,
                      p_request_ids) with ordinality
               as r (account_id, key_hash, idempotency_key, fingerprint, meter, units, body, request_id, at)
         order by r.account_id, r.at
    loop
        v_at := v.at;
        v_metered := sepu.meter_one(
            v.account_id, v.key_hash, v.idempotency_key, v.fingerprint, v.meter, v.units, v.body, v.request_id, p_now);
        v_metered.at := v.at;
        return next v_metered;
    end loop;
exception when others then
    raise exception using errcode = sqlstate, message = sqlerrm, detail = coalesce(v_at::text, '');
end $$;

-- Returns the secret for the tags of API keys (key_format.py). Without it, sepu cannot tell a real key from a
-- made-up one, so a database restored without it serves nobody.
create or replace function sepu.key_secret(out secret bytea) language plpgsql stable security definer
  set search_path = pg_catalog, pg_temp as $$
begin
    select k.secret into secret from sepu.key_secret k;
    if not found then
        raise exception using errcode = '22023', message = 'sepu.key_secret is empty: restore its row from a backup';
    end if;
end $$;

-- Returns which settings of this session break a guarantee, as text for the log; null if none does.
create or replace function sepu.broken_settings(out broken text) language plpgsql stable security definer
  set search_path = pg_catalog, pg_temp as $$
begin
    select format('role %I in database %I: ', session_user, current_database())
           || string_agg(format('%s is %s instead of %s', n.name, current_setting(n.name),
                                array_to_string(n.accepted, ' or ')), ', ')
      into broken
      from sepu.needed_settings() n
     where n.inherited and current_setting(n.name) <> all (n.accepted);
end $$;

-- Returns a Citus cluster's other nodes, as `host:port`; null without Citus.
create or replace function sepu.nodes(out nodes text) language plpgsql stable security definer
  set search_path = pg_catalog, pg_temp as $$
begin
    if to_regclass('pg_catalog.pg_dist_node') is not null then
        select string_agg(format('%s:%s', n.nodename, n.nodeport), ',' order by n.nodeid) into nodes
          from pg_dist_node n
         where n.isactive and n.noderole = 'primary' and n.groupid <> (select g.groupid from pg_dist_local_group g);
    end if;
end $$;

-- Returns the state of the node that runs this, for the session's role: each setting that breaks a guarantee, with its
-- value, the accepted values and its source; the seconds by which this node's clock is ahead of p_sent, another node's
-- instant; and how many audits are stored here, and when the latest was. Each node stores all audits, so a node that
-- lacks some was restored to an older state.
create or replace function sepu.node_state(p_sent timestamptz, p_now timestamptz default now(), out state json)
language plpgsql stable security definer
  set search_path = pg_catalog, pg_temp as $$
declare
    v_broken  json;
    v_ahead   numeric := extract(epoch from p_now - p_sent);
    v_audits  bigint;
    v_audited timestamptz;
begin
    select json_agg(json_build_array(n.name, current_setting(n.name), array_to_string(n.accepted, ' or '),
                                     (select s.source from pg_settings s where s.name = n.name)))
      into v_broken
      from sepu.needed_settings() n
     where current_setting(n.name) <> all (n.accepted);
    select count(*), max(a.audited_at) into v_audits, v_audited from sepu.audit_run a;
    state := json_build_object('broken', coalesce(v_broken, '[]'), 'ahead', v_ahead, 'audits', v_audits,
                               'audited', date_part('epoch', v_audited));
end $$;

-- Writes as a charge does, but not to customers' rows, and returns the applied migrations, or null if all rows of
-- sepu.probe are locked. If Postgres cannot write, its error says why.
--
-- The update alone would succeed on a full disk: it needs no new page, and its WAL often fits into an existing segment.
-- A charge needs new pages, so this first overflows work_mem into a temporary file on the tables' disk.
create or replace function sepu.probe(out applied text)
language plpgsql volatile security definer
  set search_path = pg_catalog, pg_temp set work_mem = '64kB' set temp_tablespaces = '' as $$
begin
    perform from (
        with spilled as materialized (select repeat(repeat(' ', 1024), 65) as spaces)
        select length(s.spaces) from spilled s) f;
    update sepu.probe p set probed_at = now()
     where p.slot = (select o.slot from sepu.probe o limit 1 for no key update skip locked);
    if found then
        select string_agg(m.name || '=' || m.sha256, ',') into applied from sepu.migration m;
    end if;
end $$;


-- 3. A function that only the owner's commands call.

-- Deletes up to p_limit of a counter's results older than p_days. Adds their units to the counter's `pruned` and
-- `dated`, and to the total for each day and key.
--
-- Locks the counter first, as a charge does. Fails if the counter has not charged the units.
-- Finds the account's results by primary key, even if the statistics are old. An index on created_at would cost each
-- charge a write; reading the account's results at each prune costs less.
create or replace function sepu.prune_results(
    p_account_id text, p_period text, p_meter text, p_days integer, p_limit integer, p_now timestamptz default now(),
    out results integer, out units integer
) language plpgsql volatile
  set search_path = pg_catalog, pg_temp set enable_seqscan = off as $$
declare
    v record;
begin
    results := 0;
    units := 0;
    perform from sepu.usage u
     where u.account_id = p_account_id and u.period = p_period and u.meter = p_meter for update;
    for v in
        with gone as (
            delete from sepu.stored_result s
             where s.account_id = p_account_id and s.idempotency_key in (
                       select o.idempotency_key from sepu.stored_result o
                        where o.account_id = p_account_id and o.period = p_period and o.meter = p_meter
                          and o.created_at < p_now - make_interval(hours => 24 * p_days)
                        limit p_limit)
            returning s.created_at, s.key_id, s.units
        )
        select (g.created_at at time zone 'UTC')::date as day, g.key_id,
               count(*) as results, sum(g.units) as units
          from gone g group by 1, 2
    loop
        insert into sepu.usage_day as d (account_id, period, meter, day, key_id, units)
        values (p_account_id, p_period, p_meter, v.day, v.key_id, v.units)
        on conflict (account_id, period, meter, day, key_id) do update set units = d.units + excluded.units;
        results := results + v.results;
        units := units + v.units;
    end loop;
    if results > 0 then
        update sepu.usage u set pruned = u.pruned + prune_results.units, dated = u.dated + prune_results.units
         where u.account_id = p_account_id and u.period = p_period and u.meter = p_meter
           and prune_results.units <= u.committed - u.pruned;
        if not found then
            raise exception using errcode = '22023', message = 'the counter has not charged these results';
        end if;
    end if;
end $$;


-- 4. Functions that people's roles call, and what these call.
--
-- They run with the owner's rights, and record what they change in the same transaction. So a role of people needs no
-- right to write to a table, changes nothing without a row in the history, and cannot choose that row's role or time:
-- no function here takes an instant or a role. statements/roles.sql says which purposes may call them.
--   make_change  -> read_states, record_changes
--   adjust_usage -> record_changes
--   read_states  -> plan_state, in_utc

-- Returns an instant as the history stores it: in UTC.
create or replace function sepu.in_utc(p_at timestamptz) returns text language plpgsql stable as $$
begin
    if isfinite(p_at) then
        return (to_jsonb(p_at at time zone 'UTC') #>> '{}') || 'Z';
    end if;
    return p_at::text;
end $$;

-- Returns what a plan allows, by meter and as requestsPerMinute, with its thresholds; null if there is no such plan.
create or replace function sepu.plan_state(p_plan_id text, out state jsonb) language plpgsql volatile as $$
declare
    v_requests_per_minute integer;
begin
    select p.requests_per_minute into v_requests_per_minute from sepu.plan p where p.plan_id = p_plan_id;
    if found then
        select coalesce(jsonb_object_agg(l.meter, l.units), '{}')
               || jsonb_build_object('requestsPerMinute', v_requests_per_minute, 'thresholds', min(l.thresholds))
          into state
          from sepu.plan_limit l where l.plan_id = p_plan_id;
    end if;
end $$;

-- Returns the states of what an action changes, by id: an account, its keys or one of them, a plan, or an event's
-- delivery. An account's state has its plan's limits, so that a move says what changed. No state has a secret. A
-- customer's free text is under a name that forget_names removes: name, externalId, reason.
create or replace function sepu.read_states(p_action text, p_account_id text, p_subject text)
returns jsonb language plpgsql volatile as $$
declare
    v_kind  text := split_part(p_action, '.', 1);
    v_found jsonb := '{}';
    v_state jsonb;
    v       record;
begin
    if v_kind = 'account' then
        for v in
            select coalesce(a.plan_id, a.erased_plan_id) as plan_id, a.status, a.name, a.external_id, a.expires_at
              from sepu.account a where a.account_id = p_account_id
        loop
            v_found := jsonb_build_object(
                p_account_id, coalesce(sepu.plan_state(v.plan_id) - 'thresholds', '{}')
                || jsonb_build_object('planId', v.plan_id, 'status', v.status, 'name', v.name,
                                      'externalId', v.external_id, 'expiresAt', sepu.in_utc(v.expires_at)));
        end loop;
    elsif v_kind = 'key' then
        for v in
            select k.key_id, k.name, k.external_id, k.expires_at, k.revoked_at
              from sepu.api_key k
             where k.account_id = p_account_id and (p_subject is null or k.key_id = p_subject)
        loop
            v_found := v_found || jsonb_build_object(
                v.key_id, jsonb_build_object('name', v.name, 'externalId', v.external_id,
                                             'expiresAt', sepu.in_utc(v.expires_at),
                                             'revokedAt', sepu.in_utc(v.revoked_at)));
        end loop;
    elsif v_kind = 'plan' then
        v_state := sepu.plan_state(p_subject);
        if v_state is not null then
            v_found := jsonb_build_object(p_subject, v_state);
        end if;
    elsif v_kind = 'events' then
        for v in
            select d.attempts, d.delivered_at, d.due_at
              from sepu.event_delivery d
             where d.account_id = p_account_id
               and concat_ws(':', d.account_id, d.period, d.meter, d.threshold, d.unit_limit) = p_subject
        loop
            v_found := jsonb_build_object(p_subject, jsonb_build_object(
                'attempts', v.attempts,
                'state', case when v.delivered_at is not null then 'delivered'
                              when v.due_at is not null then 'due' else 'dead' end));
        end loop;
    end if;
    return v_found;
end $$;

-- Adds a row to the history for each subject whose state differs, with what differs. A subject that is not among the
-- states did not exist. The role is the one that logged in, whatever the command claims to be.
create or replace function sepu.record_changes(
    p_operator text, p_action text, p_account_id text, p_before jsonb, p_after jsonb, p_now timestamptz default now()
) returns void language plpgsql volatile as $$
declare
    v_role   text := session_user;
    v_number bigint;
    v_before jsonb;
    v_after  jsonb;
    v        record;
begin
    select coalesce(max(c.number), 0) into v_number
      from sepu.change c where c.account_id = p_account_id and c.changed_at = p_now;
    for v in
        select s.subject, p_before -> s.subject as before, p_after -> s.subject as after
          from jsonb_object_keys(p_before || p_after) as s (subject)
         order by p_before ? s.subject desc, s.subject
    loop
        select jsonb_object_agg(n.name, v.before -> n.name), jsonb_object_agg(n.name, v.after -> n.name)
          into v_before, v_after
          from jsonb_object_keys(coalesce(v.before, '{}') || coalesce(v.after, '{}')) as n (name)
         where coalesce(v.before -> n.name, 'null') <> coalesce(v.after -> n.name, 'null');
        continue when v_before is null and (v.before is null) = (v.after is null);
        v_number := v_number + 1;
        v_before := case when v.before is not null then coalesce(v_before, '{}') end;
        v_after := case when v.after is not null then coalesce(v_after, '{}') end;
        insert into sepu.change (account_id, changed_at, number, role, operator, action, subject, before, after)
        values (p_account_id, p_now, v_number, v_role, p_operator, p_action, v.subject, v_before, v_after);
    end loop;
end $$;

-- Removes the names from an account's history, and nothing else. Only an erasure calls it.
create or replace function sepu.forget_names(p_account_id text) returns void language plpgsql volatile
  set search_path = pg_catalog, pg_temp as $$
begin
    update sepu.change c
       set before = c.before - array['name', 'externalId', 'reason'],
           after = c.after - array['name', 'externalId', 'reason']
     where c.account_id = p_account_id;
end $$;

-- Keeps what a plan allows from now on; null units mean that the plan is deleted. The row is the latest, even if the
-- clock was set back or this transaction waited for another.
create or replace function sepu.keep_allowance(
    p_plan_id text, p_allowed text, p_units integer, p_now timestamptz default now()
) returns void language plpgsql volatile as $$
begin
    insert into sepu.plan_allowance (plan_id, allowed, since, units)
    select p_plan_id, p_allowed, greatest(p_now, max(k.since) + interval '1 microsecond'), p_units
      from sepu.plan_allowance k
     where k.plan_id = p_plan_id and k.allowed = p_allowed;
end $$;

-- Makes a change to an account, its keys, a plan or an event's delivery, and records it. `p_given` has the new values,
-- named as in the history; a value that it lacks stays, and null removes one. Returns the states before, by id. The
-- outcomes; all but `done` change nothing:
--   done
--   missing: there is no such subject, or its account was erased; or the plan would be new, and has not all values
--   taken: another account has the external id, `holder`
--   used: accounts have the plan
--   repeated: this rotation was made before
--
-- One change to an account and its keys at a time, and to plans. Charges continue: their foreign keys need only that the
-- account's row stays.
create or replace function sepu.make_change(
    p_operator text, p_action text, p_account_id text, p_subject text, p_given jsonb,
    out outcome text, out before jsonb, out holder text
) language plpgsql volatile security definer
  set search_path = pg_catalog, pg_temp as $$
declare
    v_kind       text := split_part(p_action, '.', 1);
    v_now        timestamptz := now();
    v_status     text;
    v_replaced   text := p_given ->> 'replaced';
    v_expire     timestamptz := p_given ->> 'olderKeysExpireAt';
    -- Not read in the statements: in an update, Citus allows no cast within `case` that depends on a setting.
    v_expires_at timestamptz := p_given ->> 'expiresAt';
    v_allowed    text;
    v_units      integer;
    v_thresholds bigint[];
begin
    outcome := 'missing';
    before := '{}';
    if p_action not in ('account.create', 'account.set', 'account.suspend', 'account.reactivate', 'account.move',
                        'key.issue', 'key.set', 'key.revoke', 'key.rotate', 'plan.set', 'plan.delete', 'events.retry')
    then
        raise exception using errcode = '22023', message = format('there is no action %s', p_action);
    end if;
    if v_kind = 'plan' then
        p_account_id := '';
        -- On Citus, a transaction that has read accounts on all nodes can change a table that is on all nodes only over
        -- one connection per node. Without Citus the setting does nothing.
        perform set_config('citus.multi_shard_modify_mode', 'sequential', true);
        perform pg_advisory_xact_lock(hashtext('sepu.plan'), 0);  -- one, so that no caller can take many
    else
        select a.status into v_status from sepu.account a where a.account_id = p_account_id for no key update;
        if v_status = 'erased' or v_status is null and p_action <> 'account.create' then
            return;
        end if;
    end if;
    if p_action in ('key.issue', 'key.rotate') then
        p_subject := null;  -- whatever the caller names: all keys that change are recorded
    end if;
    before := sepu.read_states(p_action, p_account_id, p_subject);

    if v_kind = 'account' then
        if p_given ->> 'externalId' is not null then
            -- Held until the transaction ends, so that two commands do not give one external id to two accounts.
            perform pg_advisory_xact_lock(hashtext('sepu.external_id'), 0);
            select a.account_id into holder from sepu.account a
             where a.external_id = p_given ->> 'externalId' and a.account_id <> p_account_id;
            if found then
                outcome := 'taken';
                return;
            end if;
        end if;
        if p_action = 'account.create' then
            insert into sepu.account (account_id, plan_id, name, external_id, expires_at)
            values (p_account_id, p_given ->> 'planId', p_given ->> 'name', p_given ->> 'externalId', v_expires_at);
        else
            update sepu.account a
               set plan_id = coalesce(p_given ->> 'planId', a.plan_id), status = coalesce(p_given ->> 'status', a.status),
                   name = case when p_given ? 'name' then p_given ->> 'name' else a.name end,
                   external_id = case when p_given ? 'externalId' then p_given ->> 'externalId' else a.external_id end,
                   expires_at = case when p_given ? 'expiresAt' then v_expires_at else a.expires_at end
             where a.account_id = p_account_id;
        end if;

    elsif p_action in ('key.issue', 'key.rotate') then
        if v_replaced is not null and not before ? v_replaced then
            return;
        end if;
        perform from sepu.receipt r where r.account_id = p_account_id and r.rotation_id = p_given ->> 'rotationId';
        if found then
            outcome := 'repeated';
            return;
        end if;
        if v_replaced is not null then  -- first: two keys of an account cannot have one external id
            update sepu.api_key k set external_id = null
             where k.account_id = p_account_id and k.key_id = v_replaced and k.external_id is not null;
            p_given := p_given || jsonb_build_object('name', before -> v_replaced -> 'name',
                                                     'externalId', before -> v_replaced -> 'externalId');
        end if;
        insert into sepu.api_key (account_id, key_hash, key_id, expires_at, name, external_id)
        values (p_account_id, decode(p_given ->> 'keyHash', 'hex'), p_given ->> 'keyId',
                v_expires_at, p_given ->> 'name', p_given ->> 'externalId');
        if p_action = 'key.rotate' then
            -- A key that expires earlier stays as it is.
            update sepu.api_key k set expires_at = v_expire
             where k.account_id = p_account_id and k.key_id <> p_given ->> 'keyId'
               and (v_replaced is null or k.key_id = v_replaced)
               and k.revoked_at is null and (k.expires_at is null or k.expires_at > v_expire);
            insert into sepu.receipt
                (account_id, rotation_id, thumbprint, key_id, receipt, older_keys_expire_at, created_at)
            values (p_account_id, p_given ->> 'rotationId', p_given ->> 'thumbprint', p_given ->> 'keyId',
                    p_given ->> 'receipt', v_expire, v_now);
        end if;

    elsif v_kind = 'key' then
        if not before ? p_subject then
            return;
        end if;
        -- A second revocation keeps the time of the first.
        update sepu.api_key k
           set name = case when p_given ? 'name' then p_given ->> 'name' else k.name end,
               external_id = case when p_given ? 'externalId' then p_given ->> 'externalId' else k.external_id end,
               expires_at = case when p_given ? 'expiresAt' then v_expires_at else k.expires_at end,
               revoked_at = case when p_action = 'key.revoke' then least(k.revoked_at, v_now) else k.revoked_at end
         where k.account_id = p_account_id and k.key_id = p_subject;

    elsif p_action = 'plan.set' then
        if not (before ? p_subject or p_given ? 'requestsPerMinute') then
            return;
        end if;
        if p_given ? 'requestsPerMinute' then
            insert into sepu.plan (plan_id, requests_per_minute)
            values (p_subject, (p_given ->> 'requestsPerMinute')::integer)
            on conflict (plan_id) do update set requests_per_minute = excluded.requests_per_minute;
        end if;
        for v_allowed, v_units in
            select g.key, g.value from jsonb_each_text(p_given - array['thresholds', 'requestsPerMinute']) g
        loop
            insert into sepu.plan_limit (plan_id, meter, units) values (p_subject, v_allowed, v_units)
            on conflict (plan_id, meter) do update set units = excluded.units;
        end loop;
        if p_given ? 'thresholds' then
            v_thresholds := array(select t::bigint from jsonb_array_elements_text(p_given -> 'thresholds') t);
            update sepu.plan_limit l set thresholds = v_thresholds where l.plan_id = p_subject;
        end if;
        for v_allowed, v_units in select g.key, g.value from jsonb_each_text(p_given - 'thresholds') g loop
            if v_units is distinct from (before -> p_subject ->> v_allowed)::integer then
                perform sepu.keep_allowance(p_subject, v_allowed, v_units);
            end if;
        end loop;

    elsif p_action = 'plan.delete' then
        if not before ? p_subject then
            return;
        end if;
        perform from sepu.account a where a.plan_id = p_subject limit 1;
        if found then
            outcome := 'used';
            return;
        end if;
        delete from sepu.plan_limit l where l.plan_id = p_subject;
        delete from sepu.plan p where p.plan_id = p_subject;
        for v_allowed in select k from jsonb_object_keys((before -> p_subject) - 'thresholds') k loop
            perform sepu.keep_allowance(p_subject, v_allowed, null);
        end loop;

    else
        -- Even if it was delivered, or is past its retention.
        insert into sepu.event_delivery (account_id, period, meter, threshold, unit_limit, due_at)
        select e.account_id, e.period, e.meter, e.threshold, e.unit_limit, v_now
          from sepu.quota_event e
         where e.account_id = p_account_id
           and concat_ws(':', e.account_id, e.period, e.meter, e.threshold, e.unit_limit) = p_subject
        on conflict (account_id, period, meter, threshold, unit_limit) do update
           set due_at = excluded.due_at, attempts = 0, delivered_at = null, last_error = null;
        if not found then
            return;
        end if;
    end if;

    outcome := 'done';
    perform sepu.record_changes(
        p_operator, p_action, p_account_id, before, sepu.read_states(p_action, p_account_id, p_subject));
end $$;

-- Adds units to a counter's limit (a grant) or takes them off its bill (a credit), once for each adjustment id, and
-- records it. A negative number does the opposite. p_action is grant.add, credit.add or credit.range; without a period,
-- this month. A refusal at most adds an empty counter. The outcomes:
--   added
--   repeated: the same adjustment was added before
--   id_taken: the id belongs to another adjustment
--   missing: there is no such account, or it was erased
--   unlimited: the plan has no limit for the meter
--   month_over: the month takes no more grants
--   month_to_come: the month cannot be credited yet
--   too_few, too_many: the units are outside lowest..highest
--
-- Locks the account, so that nobody else adds this id, and the counter. Charges wait for the counter until the
-- transaction ends, so the caller must end it immediately.
create or replace function sepu.adjust_usage(
    p_operator text, p_action text, p_account_id text, p_adjustment_id uuid, p_period text, p_meter text, p_units integer,
    p_reason text,
    out outcome text, out period text, out month text, out plan_id text, out lowest bigint, out highest bigint
) language plpgsql volatile security definer
  set search_path = pg_catalog, pg_temp set enable_seqscan = off as $$
declare
    v_kind  text := split_part(p_action, '.', 1);
    v_now   timestamptz := now();
    v_role  text := session_user;
    v_limit integer;
    v       record;
begin
    month := to_char(v_now at time zone 'UTC', 'YYYY-MM');
    period := coalesce(p_period, month);
    if (p_action in ('grant.add', 'credit.add', 'credit.range') and p_units <> 0 and p_reason is not null
        and period ~ '^[0-9]{4}-(0[1-9]|1[0-2])$') is not true then
        raise exception using errcode = '22023', message = 'no units or reason, or no such action or month';
    end if;
    select a.plan_id into plan_id
      from sepu.account a where a.account_id = p_account_id and a.status <> 'erased' for no key update;
    if not found then
        outcome := 'missing';
        return;
    end if;
    select l.units into v_limit from sepu.plan_limit l where l.plan_id = adjust_usage.plan_id and l.meter = p_meter;
    if not found then
        outcome := 'unlimited';
        return;
    end if;
    select a.kind = v_kind and a.period = adjust_usage.period and a.meter = p_meter and a.units = p_units as is_same
      into v
      from sepu.adjustment a
     where a.account_id = p_account_id and a.adjustment_id = p_adjustment_id;
    if found then
        outcome := case when v.is_same then 'repeated' else 'id_taken' end;
        return;
    end if;
    if v_kind = 'grant' and period < month or v_kind = 'credit' and period > month then
        outcome := case when v_kind = 'grant' then 'month_over' else 'month_to_come' end;
        return;
    end if;
    insert into sepu.usage (account_id, period, meter, committed) values (p_account_id, adjust_usage.period, p_meter, 0)
    on conflict do nothing;
    select u.committed, u.reserved, u.granted, u.credited into v
      from sepu.usage u
     where u.account_id = p_account_id and u.period = adjust_usage.period and u.meter = p_meter
       for no key update;
    if v_kind = 'grant' then
        -- Used units stay within the limit. If the limit is already below them, nothing can be subtracted.
        lowest := least(0, greatest(-v.granted, v.committed::bigint + v.reserved - v_limit - v.granted));
        highest := 147483647 - v.granted;
    else
        lowest := -v.credited;
        highest := v.committed - v.credited;
    end if;
    outcome := case when p_units < lowest then 'too_few' when p_units > highest then 'too_many' else 'added' end;
    if outcome <> 'added' then
        return;
    end if;
    insert into sepu.adjustment
        (account_id, adjustment_id, kind, period, meter, units, adjusted_at, operator, database_role, reason)
    values
        (p_account_id, p_adjustment_id, v_kind, adjust_usage.period, p_meter, p_units, v_now, p_operator, v_role, p_reason);
    if v_kind = 'grant' then
        update sepu.usage u set granted = u.granted + p_units
         where u.account_id = p_account_id and u.period = adjust_usage.period and u.meter = p_meter;
    else
        update sepu.usage u set credited = u.credited + p_units
         where u.account_id = p_account_id and u.period = adjust_usage.period and u.meter = p_meter;
    end if;
    perform sepu.record_changes(p_operator, p_action, p_account_id, '{}', jsonb_build_object(
        p_adjustment_id, jsonb_build_object('period', period, 'meter', p_meter, 'units', p_units, 'reason', p_reason)));
end $$;

-- Names other sessions' transactions on this node that began before a month ended, or whose start the owner may not
-- see; null if there are none.
create or replace function sepu.unfinished(p_period text, out running text) language plpgsql volatile security definer
  set search_path = pg_catalog, pg_temp as $$
declare
    v_end      timestamptz := ((p_period || '-01')::timestamp + interval '1 month') at time zone 'UTC';
    v_prepared text;
begin
    select string_agg(distinct format('%s of process %s', l.virtualtransaction, l.pid), ', ') into running
      from pg_locks l
     where l.locktype = 'virtualxid' and l.mode = 'ExclusiveLock'
       and l.pid in (select a.pid from pg_stat_activity a
                      where a.datname = current_database() and a.pid <> pg_backend_pid() and a.usesysid is not null
                        and (a.xact_start is null or a.xact_start < v_end));
    select string_agg(format('%s of process none: it is prepared', p.gid), ', ') into v_prepared
      from pg_prepared_xacts p where p.database = current_database();
    running := nullif(concat_ws(', ', running, v_prepared), '');
end $$;

-- statements/roles.sql names the functions that each purpose's roles may call.
revoke execute on all functions in schema sepu from public;
