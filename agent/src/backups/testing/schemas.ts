import type { DatabaseEngine } from "@svc/proto";

/** Statements that make a database with what tends to get lost on the way. */
export const schemas = {
  postgres: [
    "CREATE EXTENSION citext; CREATE TYPE mood AS ENUM ('sad', 'it''s fine'); CREATE DOMAIN positive AS int CHECK (value > 0)",
    `CREATE TABLE "Odd ""Name""" (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, "Select" text NOT NULL DEFAULT 'x',
       n numeric, f float8, b bytea, j jsonb, m mood, d positive, at timestamptz, a int[], c citext,
       doubled numeric GENERATED ALWAYS AS (n * 2) STORED)`,
    String.raw`INSERT INTO "Odd ""Name""" ("Select", n, f, b, j, m, d, at, a, c) VALUES
       ('tab	newline
 back\slash \N quote''s', 1e100, 'NaN', '\x00ff0a', '{"a":1.0}', 'it''s fine', 3, '2030-01-01 00:00:00.123456+00', '{1,null}', 'AbC'),
       ('🐘 ünï', -0.00001, 'infinity', '', 'null', null, 1, 'infinity', '{}', '')`,
    `CREATE TABLE parts (id int, at date, PRIMARY KEY (id, at)) PARTITION BY RANGE (at);
     CREATE TABLE parts_30 PARTITION OF parts FOR VALUES FROM ('2030-01-01') TO ('2031-01-01');
     INSERT INTO parts SELECT g, date '2030-01-01' + g % 300 FROM generate_series(1, 1000) g`,
    `CREATE TABLE child (id int PRIMARY KEY, parent bigint REFERENCES "Odd ""Name""" (id) ON DELETE CASCADE);
     INSERT INTO child VALUES (1, 1), (2, null); CREATE INDEX child_parent ON child (parent) WHERE parent IS NOT NULL`,
    `CREATE VIEW seen AS SELECT id, upper("Select") AS word FROM "Odd ""Name""";
     CREATE MATERIALIZED VIEW kept AS SELECT count(*) AS n FROM parts;
     CREATE FUNCTION twice(x int) RETURNS int LANGUAGE sql AS 'SELECT x * 2'; CREATE SEQUENCE numbers; SELECT nextval('numbers')`,
    "CREATE SCHEMA other; CREATE TABLE other.table_of_it (x int); INSERT INTO other.table_of_it VALUES (7)",
  ],
  mariadb: [
    `CREATE TABLE \`Odd \`\`Name\` (id bigint AUTO_INCREMENT PRIMARY KEY, \`Select\` text NOT NULL, n decimal(40,10), f double,
       b varbinary(100), j json, e enum('sad', 'it''s fine'), bits bit(9), at datetime(6), t time(3),
       doubled decimal(42,10) AS (n * 2) STORED) DEFAULT CHARSET utf8mb4`,
    String.raw`INSERT INTO ${"`Odd ``Name`"} (${"`Select`"}, n, f, b, j, e, bits, at, t) VALUES
       ('tab\tnewline\n back\\slash quote''s', 1234567890123456789.0000000001, 1e300, x'00ff0a27', '{"a":1.0}', 'it''s fine', b'101010101', '2030-01-01 00:00:00.123456', '-12:00:00.5'),
       ('🐬 ünï', -0.00001, -0.0, '', 'null', null, null, null, null)`,
    `CREATE TABLE child (id int PRIMARY KEY, parent bigint, KEY by_parent (parent),
       CONSTRAINT up FOREIGN KEY (parent) REFERENCES \`Odd \`\`Name\` (id) ON DELETE CASCADE);
     INSERT INTO child VALUES (1, 1), (2, null)`,
    "CREATE TABLE numbers (x int) ; INSERT INTO numbers SELECT seq FROM seq_1_to_1000",
    "CREATE VIEW seen AS SELECT id, upper(`Select`) AS word FROM `Odd ``Name`",
  ],
} as const satisfies Record<DatabaseEngine, readonly string[]>;

const questions = {
  postgres: [
    `SELECT md5(string_agg(t::text, '|' ORDER BY id)) FROM "Odd ""Name""" t`,
    "SELECT md5(string_agg(t::text, '|' ORDER BY id, at)) FROM parts t",
    "SELECT string_agg(t::text, '|' ORDER BY id) FROM child t",
    "SELECT string_agg(t::text, '|' ORDER BY id) FROM seen t",
    "SELECT n, twice(n::int) FROM kept",
    "SELECT last_value, is_called FROM numbers",
    "SELECT x FROM other.table_of_it",
    "SELECT string_agg(pg_get_constraintdef(oid), '|' ORDER BY conname) FROM pg_constraint WHERE connamespace = 'public'::regnamespace",
    "SELECT string_agg(indexdef, '|' ORDER BY indexname) FROM pg_indexes WHERE schemaname = 'public'",
  ],
  mariadb: [
    "SELECT md5(group_concat(concat_ws(',', id, `Select`, n, f, hex(b), j, e, hex(bits), at, t, doubled) ORDER BY id)) FROM `Odd ``Name`",
    "SELECT group_concat(concat_ws(',', id, ifnull(parent, 'none')) ORDER BY id) FROM child",
    "SELECT count(*), sum(x) FROM numbers",
    "SELECT group_concat(concat_ws(',', id, word) ORDER BY id) FROM seen",
    "SELECT column_name, column_type, is_nullable FROM information_schema.columns WHERE table_schema = database() ORDER BY table_name, ordinal_position",
    "SELECT constraint_name, delete_rule FROM information_schema.referential_constraints WHERE constraint_schema = database()",
  ],
} as const satisfies Record<DatabaseEngine, readonly string[]>;

/** What two databases that were made by `schemas` agree on when they are equal. */
export async function sumsOf(kind: DatabaseEngine, sql: (statement: string) => Promise<string>): Promise<string[]> {
  const sums: string[] = [];
  for (const question of questions[kind]) sums.push(await sql(question));
  return sums;
}
