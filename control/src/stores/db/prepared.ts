import type { PostgresCursor, PostgresPool, PostgresPoolClient, PostgresQueryResult } from "kysely";
import pg from "pg";

/** Statements kept on a connection; those that come later are parsed and planned each time. */
const keptMax = 200;
/** `feature_not_supported`: here, a kept statement whose columns another version of control has changed. */
const planIsStale = "0A000";

/**
 * A pool for Kysely that has the server parse and plan each read once per connection. Planning what a person's request
 * asks for takes longer than answering it. Within a transaction nothing is kept: a read that fails there ends the
 * transaction, and kept reads fail once when a migration adds a column.
 */
export function withReadsPrepared(pool: pg.Pool): PostgresPool {
  // Kysely knows connections by their identity, and what is kept on one goes with it.
  const known = new WeakMap<pg.PoolClient, PreparedClient>();
  return {
    Client: pg.Client,
    options: pool.options,
    end: () => pool.end(),
    async connect() {
      const client = await pool.connect();
      const prepared = known.get(client) ?? new PreparedClient(client);
      known.set(client, prepared);
      return prepared;
    },
  };
}

class PreparedClient implements PostgresPoolClient {
  readonly #client: pg.PoolClient;
  /** As Kysely sees it. */
  readonly #plain: PostgresPoolClient;
  /** Of kept statements, by their texts. */
  readonly #names = new Map<string, string>();
  /** How many statements were ever kept: no name is used twice. */
  #count = 0;

  constructor(client: pg.PoolClient) {
    this.#client = client;
    this.#plain = client;
  }

  release(destroy?: boolean): void {
    this.#plain.release(destroy);
  }

  query<R>(sql: string, parameters: readonly unknown[]): Promise<PostgresQueryResult<R>>;
  query<R>(cursor: PostgresCursor<R>): PostgresCursor<R>;
  query<R>(asked: string | PostgresCursor<R>, parameters: readonly unknown[] = []) {
    return typeof asked === "string" ? this.#ask<R>(asked, parameters) : this.#plain.query(asked);
  }

  async #ask<R>(text: string, values: readonly unknown[]): Promise<PostgresQueryResult<R>> {
    const name = isRead(text) && this.#client.getTransactionStatus() === "I" ? this.#nameOf(text) : null;
    if (name === null) return this.#plain.query<R>(text, values);
    try {
      return (await this.#client.query<R & pg.QueryResultRow, unknown[]>({
        name,
        text,
        values: [...values],
      })) as PostgresQueryResult<R>;
    } catch (error) {
      if (!(error instanceof pg.DatabaseError) || error.code !== planIsStale) throw error;
      this.#names.delete(text);
      return this.#plain.query<R>(text, values);
    }
  }

  #nameOf(text: string): string | null {
    const known = this.#names.get(text);
    if (known !== undefined) return known;
    if (this.#count >= keptMax) return null;
    this.#count += 1;
    const name = `read-${this.#count}`;
    this.#names.set(text, name);
    return name;
  }
}

const isRead = (text: string): boolean => text.startsWith("select ");
