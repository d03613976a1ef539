insert into sepu.migration (name, sha256) values (%(name)s, %(sha256)s)
on conflict (name) do update set sha256 = excluded.sha256, applied_at = excluded.applied_at
