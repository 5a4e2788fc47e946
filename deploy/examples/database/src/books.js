import pg from "pg";

/** The most entries that are kept: the form is open to everybody. */
const booksMax = 1_000;
const shownMax = 50;

/** The database cannot be reached, or is not taking work just now. Whether a change was kept is then not known. */
export class DatabaseAway extends Error {
  name = "DatabaseAway";
}

// SQL states of a server that is fine but not for us now: connection lost, too many of them, shutting down or starting.
const away = /^(08|53|57)/;

/**
 * The entries in the database at `connectionString`. Statements are prepared once per connection. Each call throws
 * `DatabaseAway` within some seconds when there is no answer.
 */
export function openBooks(connectionString, { onLost }) {
  const pool = new pg.Pool({
    connectionString,
    max: 5,
    connectionTimeoutMillis: 3_000,
    query_timeout: 5_000,
    idleTimeoutMillis: 60_000,
  });
  // An idle connection that breaks is replaced by the next query; without a listener it would end the process.
  pool.on("error", onLost);

  async function query(statement) {
    try {
      return await pool.query(statement);
    } catch (error) {
      if (error instanceof pg.DatabaseError && !away.test(error.code)) throw error;
      throw new DatabaseAway("the database does not answer", { cause: error });
    }
  }

  return {
    /** The newest entries, and how many there are. */
    async list() {
      const { rows } = await query({
        name: "list",
        text: "select id, title, author, note, created_at, count(*) over () as total from book order by id desc limit $1",
        values: [shownMax],
      });
      const books = rows.map(({ id, title, author, note, created_at }) => ({ id: Number(id), title, author, note, createdAt: created_at }));
      return { books, total: Number(rows[0]?.total ?? 0) };
    },
    /** Adds an entry; false when the list is full. */
    async add({ title, author, note }) {
      const { rowCount } = await query({
        name: "add",
        text: "insert into book (title, author, note) select $1, $2, $3 where (select count(*) from book) < $4",
        values: [title, author, note, booksMax],
      });
      return rowCount === 1;
    },
    close: () => pool.end(),
  };
}
