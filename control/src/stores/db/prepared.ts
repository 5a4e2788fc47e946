import type { PostgresCursor, PostgresPool, PostgresPoolClient, PostgresQueryResult } from "kysely";
import pg from "pg";

/** Statements kept on a connection; those that come later are parsed and planned each time. */
const keptMax = 300;
/** Texts remembered that were asked once: many never come again, as those with lists of other lengths. */
const onceMax = 1_000;
/** `feature_not_supported`: here, a kept statement whose columns another version of control has changed. */
const planIsStale = "0A000";

/**
 * A pool for Kysely that has the server parse and plan once per connection what is asked again and again: planning takes longer
 * than answering, for most of what control asks. Within a transaction only statements are kept whose columns are named: what
 * asks for all columns fails once when a migration adds one, and that would end the transaction.
 */
export function withPrepared(pool: pg.Pool): PostgresPool {
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
  /** Texts that were asked once. */
  readonly #once = new Set<string>();
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
    const isAlone = this.#client.getTransactionStatus() === "I";
    const name = isAlone || namesColumns(text) ? this.#nameOf(text) : null;
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
      if (!isAlone) throw error;
      return this.#plain.query<R>(text, values);
    }
  }

  #nameOf(text: string): string | null {
    const known = this.#names.get(text);
    if (known !== undefined) return known;
    if (this.#count >= keptMax || !isKind(text)) return null;
    if (!this.#once.delete(text)) {
      if (this.#once.size >= onceMax) this.#once.clear();
      this.#once.add(text);
      return null;
    }
    this.#count += 1;
    const name = `kept-${this.#count}`;
    this.#names.set(text, name);
    return name;
  }
}

/** What can be kept: one statement, no `begin`, and nothing that changes the schema. */
const isKind = (text: string): boolean =>
  /^\s*(?:select|insert|update|delete|with)\s/.test(text) && !text.includes(";");

/** That no column is added to what it returns. */
const namesColumns = (text: string): boolean => !/(?:\.|\b(?:select|returning)\s|,\s*)\*/.test(text);
