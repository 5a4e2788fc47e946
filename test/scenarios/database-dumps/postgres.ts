import type { Fixture } from "./fixture.ts";

const ours = "n.nspname !~ '^pg_' and n.nspname <> 'information_schema'";

/** All that a database holds, as lines of text: equal texts are equal databases. */
export const postgresFacts: readonly string[] = [
  // Rows of tables, views and what is materialised: how many, and their digest whatever their order.
  `select concat_ws(' ', n.nspname, c.relname, c.relkind, (xpath('//m/text()', query_to_xml(format(
      'select count(*) || '' '' || coalesce(md5(string_agg(t::text, e''\\n'' order by t::text collate "C")), '''') as m from %I.%I t',
      n.nspname, c.relname), false, true, '')))[1]::text) as line
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where c.relkind in ('r', 'p', 'v', 'm') and ${ours} order by 1`,
  `select concat_ws(' ', n.nspname, c.relname, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attgenerated,
      a.attidentity, pg_get_expr(d.adbin, d.adrelid)) as line
    from pg_attribute a join pg_class c on c.oid = a.attrelid join pg_namespace n on n.oid = c.relnamespace
    left join pg_attrdef d on d.adrelid = c.oid and d.adnum = a.attnum
    where a.attnum > 0 and not a.attisdropped and c.relkind in ('r', 'p', 'v', 'm') and ${ours} order by 1`,
  `select line from (
      select concat_ws(' ', 'constraint', conrelid::regclass, conname, pg_get_constraintdef(k.oid)) as line
      from pg_constraint k join pg_namespace n on n.oid = k.connamespace where ${ours}
      union all select concat_ws(' ', 'index', pg_get_indexdef(i.indexrelid)) from pg_index i
      join pg_class c on c.oid = i.indexrelid join pg_namespace n on n.oid = c.relnamespace where ${ours}
      union all select concat_ws(' ', 'view', c.oid::regclass, pg_get_viewdef(c.oid)) from pg_class c
      join pg_namespace n on n.oid = c.relnamespace where c.relkind in ('v', 'm') and ${ours}
      union all select concat_ws(' ', 'bounds', c.oid::regclass, pg_get_partkeydef(c.oid), pg_get_expr(c.relpartbound, c.oid))
      from pg_class c join pg_namespace n on n.oid = c.relnamespace where c.relkind in ('r', 'p') and ${ours}
      union all select concat_ws(' ', 'trigger', pg_get_triggerdef(t.oid), t.tgenabled) from pg_trigger t where not t.tgisinternal
      union all select concat_ws(' ', 'function', pg_get_functiondef(p.oid)) from pg_proc p
      join pg_namespace n on n.oid = p.pronamespace where ${ours}
      union all select concat_ws(' ', 'sequence', s.schemaname, s.sequencename, s.data_type, s.start_value, s.increment_by,
        s.cycle, s.last_value) from pg_sequences s
      union all select concat_ws(' ', 'enum', enumtypid::regtype, enumsortorder, enumlabel) from pg_enum
      union all select concat_ws(' ', 'comment', description) from pg_description d
      join pg_class c on c.oid = d.objoid join pg_namespace n on n.oid = c.relnamespace where ${ours}
      union all select concat_ws(' ', 'large object', oid, md5(lo_get(oid))) from pg_largeobject_metadata
    ) facts order by 1`,
];

export const postgresFixtures: Readonly<Record<string, Fixture>> = {
  types: {
    sql: `create type mood as enum ('calm', 'wild', '🦔');
      create domain percent as int check (value between 0 and 100);
      create table types (
        id bigint primary key, n numeric, r float8, t text, b bytea, j json, jb jsonb, u uuid, ts timestamptz, d date, i interval,
        bits bit varying(9), ip inet, mac macaddr, arr int[], txts text[], m mood, p percent, rng int4range, poly polygon,
        ok boolean, c char(5), tsv tsvector, x xml, money money, nothing text
      );
      insert into types values
        (-9223372036854775808, '1e1000', 'NaN', e'tab\\t line\\n back\\\\ \\x01 🦔 "quoted"', '\\x00ff5c0a27', '{"a": 1.0, "a": 2}', '{"a": [null, 1e400]}',
          '00000000-0000-0000-0000-000000000000', 'infinity', '4713-01-01 BC', '1 year -2 days 03:04:05.678901', '101', '::1/128',
          '08:00:2b:01:02:03', '{{1,null},{3,4}}', '{"a,b","\\\\\\"",null,""}', '🦔', 100, '[1,5)', '((0,0),(1,1),(1,0))', true, 'ab', 'a:1 b:2', '<a>&amp;</a>', '-12.34', null),
        (9223372036854775807, '-0.000000000000000000000000000001', '-Infinity', '', '', '[]', 'null', 'ffffffff-ffff-ffff-ffff-ffffffffffff', '-infinity',
          'infinity', '-178000000 years', '', '0.0.0.0/0', '08:00:2b:01:02:03', '[-2:0]={1,2,3}', '{}', 'calm', 0, 'empty', '((0,0))', false, '', '', '', '0', null),
        (0, 'NaN', 5e-324, '\\.', '\\x5c2e', '" "', '" "', gen_random_uuid(), '0001-01-01 00:00:00.000001+00 BC', 'today', '0', '111111111', '10.0.0.1', '08:00:2b:01:02:03', null, null, null, null, null, null, null, null, null, null, null, '\\N');`,
  },
  partitions: {
    sql: `create table partitions (day date not null, region text, n int, primary key (day, region)) partition by range (day);
      create table partitions_old partition of partitions for values from (minvalue) to ('2030-01-01');
      create table partitions_new partition of partitions for values from ('2030-01-01') to (maxvalue) partition by list (region);
      create table partitions_new_north partition of partitions_new for values in ('north', '🧭');
      create table partitions_new_rest partition of partitions_new default;
      create index on partitions (n desc nulls last) where n > 10;
      insert into partitions select '2029-12-01'::date + n, (array['north', '🧭', 'south'])[n % 3 + 1], n from generate_series(0, 199) n;
      create table partitions_parent (a int); create table partitions_child (b int) inherits (partitions_parent);
      insert into partitions_child values (1, 2);`,
  },
  views: {
    sql: `create table views (id int primary key, parent int references views deferrable initially deferred, price numeric(9, 2),
        gross numeric generated always as (price * 1.2) stored, slug text generated always as (lower('v-' || id)) stored);
      insert into views (id, parent, price) values (1, 2, 9.99), (2, 1, 0.01);
      create view views_tree with (security_barrier) as with recursive tree as (select id, parent, 1 as depth from views
        union all select v.id, v.parent, depth + 1 from views v join tree t on v.parent = t.id where depth < 5) select * from tree;
      create materialized view views_sums as select parent, sum(gross) as total from views group by parent;
      create unique index on views_sums (parent);
      create view views_of_views as select * from views_sums join views_tree using (parent);
      comment on view views_tree is 'with a ''quote'' and a 🌳';`,
  },
  sequences: {
    sql: `create sequence sequences_odd as smallint increment by -2 minvalue -100 maxvalue 7 start 7 cycle;
      select nextval('sequences_odd'), nextval('sequences_odd');
      create table sequences (a serial, b int generated always as identity (start 1000 increment 10), c bigint generated by default as identity, d int default nextval('sequences_odd'));
      insert into sequences (c) select n from generate_series(1, 50) n;
      select setval('sequences_a_seq', 2147483000);`,
  },
  names: {
    sql: `create schema "a ""schema"".🦔"; create table "a ""schema"".🦔"."names; drop table types--" ("the ""id""" int primary key, "select" text, "\\back" text, "🦔" text);
      insert into "a ""schema"".🦔"."names; drop table types--" values (1, 'a', 'b', 'c');
      create index "an ""index""" on "a ""schema"".🦔"."names; drop table types--" ("select");
      create view names as select "the ""id""" as "a % of $1" from "a ""schema"".🦔"."names; drop table types--";`,
  },
  functions: {
    sql: `create table functions (id int primary key, touched int default 0);
      create function functions_touch() returns trigger language plpgsql as $body$ begin new.touched := old.touched + 1; return new; end $body$;
      create trigger functions_touched before update on functions for each row when (old.id > 0) execute function functions_touch();
      create trigger functions_off after insert on functions for each statement execute function functions_touch();
      alter table functions disable trigger functions_off;
      create function functions_sum(variadic n int[] default '{}') returns bigint language sql immutable as 'select sum(x) from unnest(n) x';
      create procedure functions_add(inout n int) language plpgsql as $$ begin n := n + 1; commit; end $$;
      create table functions_checked (n int check (functions_sum(n, 1) > 0), exclude using gist (int4range(n, n + 1) with &&));
      insert into functions values (1); update functions set id = 2; insert into functions_checked values (1), (5);`,
  },
  large: {
    sql: `create table large (id int, content oid);
      insert into large values (1, lo_from_bytea(0, '\\x00ff00ff')), (2, lo_from_bytea(0, convert_to(repeat('🦔', 100000), 'UTF8')));
      insert into large values (3, lo_create(0));`,
  },
};
