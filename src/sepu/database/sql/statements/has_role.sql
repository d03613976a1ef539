select exists (select from pg_roles where rolname = %(role)s)
