-- What each audit found: the console shows the last verdict.
create table sepu.audit_run (
    audited_at  timestamptz not null,
    counters    bigint      not null,
    results     bigint      not null,
    differences bigint      not null,   -- the audit itself lists them
    constraint audit_run_pkey primary key (audited_at)
);
