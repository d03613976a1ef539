-- Distributes the ledger over a Citus cluster, by account. Running it again does only what is left to do, such as the
-- tables and functions of later migrations.
--
-- One node has all rows of an account and runs the whole function of a request. plan, plan_limit, plan_allowance,
-- key_secret, migration and audit_run are small, the same for all accounts, and on every node. probe stays on the
-- coordinator.
do $$
declare
    v_table     regclass;
    v_function  regprocedure;
    v_delegated boolean;
begin
    -- Reference tables come first. Without this setting, Citus would turn account, which refers to plan, into a local
    -- Citus table in between, and copy it twice.
    perform set_config('citus.enable_local_reference_table_foreign_keys', 'off', true);

    for v_table in
        select t.oid from pg_class t
         where t.oid in ('sepu.plan'::regclass, 'sepu.plan_limit'::regclass, 'sepu.plan_allowance'::regclass,
                         'sepu.key_secret'::regclass, 'sepu.migration'::regclass, 'sepu.audit_run'::regclass)
           and not exists (select from pg_dist_partition d
                            where d.logicalrelid = t.oid and d.partmethod = 'n' and d.repmodel = 't')
    loop
        perform create_reference_table(v_table);
    end loop;

    -- Oldest first: tables refer only to older ones, and all refer to account.
    for v_table in
        select t.oid from pg_class t
         where t.relnamespace = 'sepu'::regnamespace and t.relkind = 'r'
           and exists (select from pg_attribute a where a.attrelid = t.oid and a.attname = 'account_id')
           and not exists (select from pg_dist_partition d where d.logicalrelid = t.oid and d.partmethod = 'h')
         order by t.oid
    loop
        perform create_distributed_table(
            v_table, 'account_id',
            colocate_with => case when v_table = 'sepu.account'::regclass then 'none' else 'sepu.account' end
        );
    end loop;

    -- Functions that the service calls for one account are delegated to its node, which also needs the functions that
    -- they call.
    for v_function, v_delegated in
        select p.oid, p.prosecdef and p.proargnames[1] = 'p_account_id'
          from pg_proc p
         where p.pronamespace = 'sepu'::regnamespace
         order by p.oid
    loop
        -- Citus 13.2.2 and 14.0.1 keep a copy of a generic plan for each execution, about 220 KiB a charge, until the
        -- session ends (citus#8824). They do not keep custom plans, which cost the same. Set this each time, because a
        -- migration that replaces a function drops its settings.
        if v_delegated then
            execute format('alter function %s set plan_cache_mode = force_custom_plan', v_function);
        end if;
        if v_delegated and not exists (select from pg_dist_object o
                                        where o.classid = 'pg_proc'::regclass and o.objid = v_function
                                          and o.distribution_argument_index = 0) then
            perform create_distributed_function(v_function, 'p_account_id', colocate_with => 'sepu.account');
        elsif not exists (select from pg_dist_object o
                           where o.classid = 'pg_proc'::regclass and o.objid = v_function) then
            perform create_distributed_function(v_function);
        end if;
    end loop;
end $$;
