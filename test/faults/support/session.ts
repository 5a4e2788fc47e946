import mysql from "mysql2/promise";
import pg from "pg";
import type { Written } from "./judge.ts";

/** One session with a branch of either engine, as its tenant. */
export interface Session {
  write(id: number): Promise<void>;
  rows(): Promise<Written[]>;
  /** Whether it still answers anything. */
  answers(): Promise<boolean>;
  destroy(): void;
}

/** `host`: where the name in the address leads to, for a process that has no names of containers. */
export interface Target {
  url: string;
  host: string;
  /** One for each writer, whose ids begin anew. */
  table: string;
}

const insert = (table: string) => `insert into ${table} (id) values`;
const select = (table: string) => `select seq, id from ${table} order by seq`;

/** Connects, and makes the table unless it is there. Whatever takes longer than `answerMs` fails. */
export function connect(target: Target, answerMs: number): Promise<Session> {
  return new URL(target.url).protocol === "mysql:" ? toMariadb(target, answerMs) : toPostgres(target, answerMs);
}

const create = (table: string, seq: string) =>
  `create table if not exists ${table} (seq ${seq} primary key, id bigint not null)`;

async function toPostgres({ url, host, table }: Target, answerMs: number): Promise<Session> {
  const { username, password, pathname, port } = new URL(url);
  const client = new pg.Client({
    ...{ host, port: Number(port), user: username, password, database: pathname.slice(1) },
    ...{ connectionTimeoutMillis: answerMs, query_timeout: answerMs },
  });
  // Each statement that was under way fails by itself.
  client.on("error", () => {});
  await client.connect();
  await client.query(create(table, "bigserial"));
  return {
    async write(id) {
      await client.query(`${insert(table)} ($1)`, [id]);
    },
    async rows() {
      const { rows } = await client.query<{ seq: string; id: string }>(select(table));
      return rows.map(({ seq, id }) => ({ seq: Number(seq), id: Number(id) }));
    },
    answers: () =>
      client.query("select 1").then(
        () => true,
        () => false,
      ),
    destroy: () => client.connection.stream.destroy(),
  };
}

async function toMariadb({ url, host, table }: Target, answerMs: number): Promise<Session> {
  const { username, password, pathname, port } = new URL(url);
  const client = await mysql.createConnection({
    ...{ host, port: Number(port), user: username, password, database: pathname.slice(1) },
    connectTimeout: answerMs,
  });
  client.on("error", () => {});
  await client.query({ sql: create(table, "bigint auto_increment"), timeout: answerMs });
  return {
    async write(id) {
      await client.query({ sql: `${insert(table)} (?)`, values: [id], timeout: answerMs });
    },
    async rows() {
      const [rows] = await client.query<(mysql.RowDataPacket & Written)[]>({ sql: select(table), timeout: answerMs });
      return rows.map(({ seq, id }) => ({ seq, id }));
    },
    answers: () =>
      client.query({ sql: "select 1", timeout: answerMs }).then(
        () => true,
        () => false,
      ),
    destroy: () => client.destroy(),
  };
}
