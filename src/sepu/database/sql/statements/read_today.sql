select (now() at time zone 'UTC')::date
