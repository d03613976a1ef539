select nspowner::regrole::text, pg_has_role(nspowner, 'USAGE') from pg_namespace where nspname = 'sepu'
