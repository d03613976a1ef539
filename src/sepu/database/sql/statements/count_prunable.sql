-- The results older than the given days. It reads all results once, and so is exact whatever the statistics say.
select count(*) from sepu.stored_result where created_at < now() - make_interval(hours => 24 * %(days)s)
