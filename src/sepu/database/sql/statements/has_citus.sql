select exists (select from pg_extension where extname = 'citus')
