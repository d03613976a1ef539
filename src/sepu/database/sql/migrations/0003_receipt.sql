-- Keys that went to their owners encrypted. The plain key is stored nowhere, so a rotation that is asked for again is
-- answered with its receipt from here.
create table sepu.receipt (
    account_id           text        not null,
    rotation_id          text        not null,
    thumbprint           text        not null,   -- of the public key that it is encrypted to: RFC 7638, SHA-256
    key_id               text        not null,
    receipt              text        not null,   -- a compact JWE; only its owner's private key opens it
    older_keys_expire_at timestamptz not null,   -- at the latest
    created_at           timestamptz not null default now(),
    constraint receipt_pkey primary key (account_id, rotation_id),
    constraint receipt_key_fkey foreign key (account_id, key_id) references sepu.api_key (account_id, key_id),
    constraint receipt_rotation_id_form check (rotation_id ~ '^[A-Za-z0-9._:-]{1,128}$'),
    constraint receipt_thumbprint_form check (thumbprint ~ '^[A-Za-z0-9_-]{43}$'),
    constraint receipt_encrypted check (receipt ~ '^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+){4}$')
);
