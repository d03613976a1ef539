-- Versions before the current ones, for servers of the release before, which go on during an upgrade. Each calls the
-- current version, and gives its answer in the old form.
--
-- This is the place that says what may be dropped, and when: a release keeps what the release before it calls, and the
-- release after it drops that in a migration, and here. So release 0.2 drops
-- * the functions of this file, the versions without a number of authenticate, read_usage_one and meter_one, and
--   authenticate_v2: no function calls these any more, and databases that were made before migrations 0005 and 0006
--   still have them;
-- * the columns match_limit and search_limit of sepu.plan, and their constraints.

create or replace function sepu.count_request(
    p_account_id text, p_lane smallint, p_requests_per_minute integer, p_now timestamptz
) returns boolean language plpgsql volatile as $$
begin
    return sepu.count_request_v2(p_account_id, p_lane, p_requests_per_minute, p_now);
end $$;

create or replace function sepu.read_usage(
    p_account_id text, p_key_hash bytea, p_now timestamptz default now(),
    out outcome text, out plan_id text, out period text,
    out match_limit integer, out match_committed integer, out match_reserved integer,
    out search_limit integer, out search_committed integer, out search_reserved integer
) language plpgsql volatile security definer
  set search_path = pg_catalog, pg_temp set enable_seqscan = off set lock_timeout = '800ms' as $$
begin
    select max(u.outcome), max(u.plan_id), max(u.period),
           max(u.unit_limit) filter (where u.meter = 'color_match'),
           max(u.committed) filter (where u.meter = 'color_match'),
           max(u.reserved) filter (where u.meter = 'color_match'),
           max(u.unit_limit) filter (where u.meter = 'color_search'),
           max(u.committed) filter (where u.meter = 'color_search'),
           max(u.reserved) filter (where u.meter = 'color_search')
      into outcome, plan_id, period,
           match_limit, match_committed, match_reserved, search_limit, search_committed, search_reserved
      from sepu.read_usage_one_v2(p_account_id, p_key_hash, p_now) u;
end $$;

create or replace function sepu.read_usage_each(
    p_account_ids text[], p_key_hashes bytea[], p_now timestamptz default now()
) returns table (
    at bigint, outcome text, plan_id text, period text,
    match_limit integer, match_committed integer, match_reserved integer,
    search_limit integer, search_committed integer, search_reserved integer
) language plpgsql volatile security definer
  set search_path = pg_catalog, pg_temp set enable_seqscan = off set lock_timeout = '200ms' as $$
begin
    return query
    select u.at, max(u.outcome), max(u.plan_id), max(u.period),
           max(u.unit_limit) filter (where u.meter = 'color_match'),
           max(u.committed) filter (where u.meter = 'color_match'),
           max(u.reserved) filter (where u.meter = 'color_match'),
           max(u.unit_limit) filter (where u.meter = 'color_search'),
           max(u.committed) filter (where u.meter = 'color_search'),
           max(u.reserved) filter (where u.meter = 'color_search')
      from sepu.read_usage_each_v2(p_account_ids, p_key_hashes, p_now) u
     group by u.at;
end $$;
