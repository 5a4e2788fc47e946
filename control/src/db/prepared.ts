import pg from "pg";

/** Statements kept on a connection; those that come later are parsed and planned each time. */
const keptMax = 200;
/** `feature_not_supported`: here, a kept statement whose columns another version of control has changed. */
const planIsStale = "0A000";

/**
 * A connection that has the server parse and plan each read once. Planning what a person's request asks for takes
 * longer than answering it. Within a transaction nothing is kept: a read that fails there ends the transaction, and
 * kept reads fail once when a migration adds a column.
 */
export class ReadsPrepared extends pg.Client {
  /** By their texts. */
  readonly #names = new Map<string, string>();
  /** How many statements were ever kept: no name is used twice. */
  #count = 0;

  // The many forms of `query` are those of pg; only the one that Kysely uses is looked at.
  // biome-ignore lint/suspicious/noExplicitAny: the overloads of pg cannot be written again.
  override query(...given: any[]): any {
    const [text, values, callback] = given;
    const ask = super.query.bind(this) as (...args: unknown[]) => Promise<pg.QueryResult>;
    if (callback !== undefined || !Array.isArray(values) || !isRead(text)) return ask(...given);
    const name = this.getTransactionStatus() === "I" ? this.#nameOf(text) : null;
    if (name === null) return ask(text, values);
    return ask({ name, text, values }).catch((error: unknown) => {
      if (!(error instanceof pg.DatabaseError) || error.code !== planIsStale) throw error;
      this.#names.delete(text);
      return ask(text, values);
    });
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

const isRead = (text: unknown): text is string => typeof text === "string" && text.startsWith("select ");
