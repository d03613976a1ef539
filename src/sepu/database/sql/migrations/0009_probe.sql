-- What a service writes to learn whether a charge could be committed. It takes any row that nobody holds, so services do
-- not wait for each other; if all are held, so many commits hang. The low fill factor keeps the updates on their page
-- (HOT). Of no account: on Citus the table stays on the coordinator.
create table sepu.probe (
    slot      smallint    not null,
    probed_at timestamptz,           -- null: never
    constraint probe_pkey primary key (slot)
) with (fillfactor = 25);
insert into sepu.probe (slot) select i from generate_series(1, 64) i;
