import type { Fixture } from "./fixture.ts";

/** All that a database holds, as lines of text: equal texts are equal databases. */
export const mariadbFacts: readonly string[] = [
  `set @tables = (select group_concat('\`', replace(table_name, '\`', '\`\`'), '\`' order by table_name) from information_schema.tables
      where table_schema = database() and table_type = 'BASE TABLE');
    set @sums = concat('checksum table ', @tables, ' extended'); prepare sums from @sums; execute sums`,
  `select concat_ws(' ', table_name, column_name, column_type, is_nullable, column_default, extra, generation_expression, character_set_name,
      collation_name, column_comment) as line from information_schema.columns where table_schema = database() order by table_name, ordinal_position`,
  `select concat_ws(' ', table_name, index_name, seq_in_index, column_name, sub_part, non_unique, index_type) as line
    from information_schema.statistics where table_schema = database() order by table_name, index_name, seq_in_index`,
  `select concat_ws(' ', table_name, replace(view_definition, concat('\`', database(), '\`.'), ''), check_option, security_type) as line
    from information_schema.views where table_schema = database() order by table_name`,
  `select concat_ws(' ', table_name, constraint_name, check_clause) as line from information_schema.check_constraints
    where constraint_schema = database() order by table_name, constraint_name`,
  `select concat_ws(' ', table_name, constraint_name, referenced_table_name, update_rule, delete_rule) as line
    from information_schema.referential_constraints where constraint_schema = database() order by table_name, constraint_name`,
];

export const mariadbFixtures: Readonly<Record<string, Fixture>> = {
  types: {
    sql: `set sql_mode = '';
      create table types (id bigint unsigned primary key, d decimal(65, 30), f double, b bit(64), b1 bit(1), t tinyint(1), y year,
        e enum('calm', '☂', 'wild'), s set('a', 'b', 'c'), dt datetime(6), ts timestamp(6) null, day date, tm time(6), j json, u uuid, ip inet6, c char(3), n varchar(10) null);
      insert into types values
        (18446744073709551614, 12345678901234567890123456789012345.000000000000000000000000000001, 5e-324, x'ffffffffffffffff', b'1', 127, 2155, '☂', 'a,c',
          '0000-00-00', '2038-01-19 03:14:07.999999', '0000-00-00', '-838:59:59.999999', '{"a": "\\\\u0000"}', '00000000-0000-0000-0000-000000000000', '::1', 'é', null),
        (1, -0.1, -1.7976931348623157e308, 0, b'0', -128, 0, '', '', '2030-02-00 00:00:00', null, '2030-00-00', '00:00:00.000001', '[]', 'ffffffff-ffff-ffff-ffff-ffffffffffff', '::', '', '');
      insert into types (id, e) values (0, 'wrong');`,
    also: ["select concat_ws('|', id, day, dt, hex(b), b1 + 0, e + 0) as line from types order by id"],
  },
  views: {
    sql: `create table views (id int primary key, price decimal(9, 2) check (price >= 0), gross decimal(10, 3) as (price * 1.2) stored,
        slug varchar(20) as (concat('v-', id)) virtual, parent int, index (slug), foreign key (parent) references views (id) on delete set null);
      insert into views (id, price, parent) values (1, 9.99, null), (2, 0.01, 1);
      create view views_dear as select id, gross from views where price > 1 with check option;
      create view views_on_view as select d.id, v.slug from views_dear d join views v using (id);
      create view views_before as select 1 as one;`,
    also: [
      "select concat_ws('|', d.id, gross, slug, one) as line from views_dear d join views_on_view using (id) join views_before",
    ],
  },
  blobs: {
    sql: `create table blobs (id int primary key, small tinyblob, content longblob, words longtext character set utf8mb4, fixed binary(4), var varbinary(9), latin varchar(9) character set latin1);
      insert into blobs values (1, '', unhex(repeat('00ff0a5c271a', 100000)), repeat('🦔"\\'\\\\\\n', 10000), x'00', x'275c', 'é'), (2, null, null, '', x'ffffffff', '', '');`,
    also: [
      "select concat_ws('|', id, md5(content), md5(words), hex(fixed), hex(var), hex(latin)) as line from blobs order by id",
    ],
  },
  names: {
    sql: `create table \`names; drop table types-- "☂"\` (\`the \`\`id\`\`\` int primary key, \`select\` varchar(9) comment 'it''s a "☂"', \`per % of ?\` int, key \`an \`\`index\`\`\` (\`select\`)) comment 'it''s';
      insert into \`names; drop table types-- "☂"\` values (1, 'a', 2); create table Names (A int); create table names (a int); insert into Names values (1); insert into names values (2);`,
  },
  partitions: {
    sql: `create table partitions (id int not null auto_increment, day date not null, primary key (id, day)) auto_increment = 1000 partition by range columns (day)
        (partition p0 values less than ('2030-01-01'), partition rest values less than (maxvalue));
      insert into partitions (day) select date_add('2029-12-01', interval seq day) from seq_0_to_99;
      create sequence partitions_sequence start with 7 increment by 5; select nextval(partitions_sequence);`,
    also: [
      "select concat_ws('|', partition_name, partition_description) as line from information_schema.partitions where table_schema = database() and table_name = 'partitions' order by 1",
      "select auto_increment from information_schema.tables where table_schema = database() and table_name = 'partitions'",
    ],
  },
};
