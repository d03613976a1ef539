-- Stores load.results results for each ample account, load.age old, each as large as that of one colour and top 1.
-- Making the primary key again at the end takes a tenth of the time that keeping it would.
set synchronous_commit = off;
set maintenance_work_mem = '512MB';
alter table sepu.stored_result drop constraint stored_result_pkey;
insert into sepu.stored_result (account_id, idempotency_key, fingerprint, meter, units, period, body, created_at,
                                key_id, request_id)
select a.account_id,
       'fill-' || substr(md5(a.account_id || n), 1, 20),
       decode(repeat(md5(a.account_id || n), 2), 'hex'),
       'color_match', 1,
       to_char((now() - current_setting('load.age')::interval) at time zone 'UTC', 'YYYY-MM'),
       convert_to(repeat('x', 250), 'UTF8'), now() - current_setting('load.age')::interval,
       a.account_id || '-aaaaaaaa', gen_random_uuid()
  from generate_series(1, current_setting('load.results')::integer) n
 cross join (select account_id from sepu.account where plan_id = 'load-ample') a;
alter table sepu.stored_result add constraint stored_result_pkey primary key (account_id, idempotency_key);
insert into sepu.usage (account_id, period, meter, committed)
select account_id, to_char((now() - current_setting('load.age')::interval) at time zone 'UTC', 'YYYY-MM'), 'color_match',
       current_setting('load.results')::integer
  from sepu.account where plan_id = 'load-ample';
