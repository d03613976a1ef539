select exists (
    select from pg_dist_node
     where isactive and shouldhaveshards and noderole = 'primary'
       and groupid <> (select groupid from pg_dist_local_group)
)
