create schema if not exists sepu;
create table if not exists sepu.migration (
    name       text        not null,
    sha256     text        not null,
    applied_at timestamptz not null default now(),
    constraint migration_pkey primary key (name),
    constraint migration_sha256_form check (sha256 ~ '^[0-9a-f]{64}$')
)
