/** The most todos that are kept: the page is open to everybody who may see it. */
const todosMax = 500;

/** The database cannot be reached, or is not taking work just now. Whether a change was kept is then not known. */
export class DatabaseAway extends Error {
  name = "DatabaseAway";
}

/** Codes of a connection that is lost or was never made, as the client of Postgres or Node names them. */
const lost = /^(CONNECT|ECONN|EHOST|ENET|ETIMEDOUT|ENOTFOUND|EAI_|EPIPE)/;
/** SQL states of a server that is fine, but not for us now: too many connections, starting, ending, or too slow an answer. */
const busy = /^(08|53|57)/;

/** What is kept of todos. Each call throws `DatabaseAway` when there is no answer. */
export function createTodos(sql) {
  const ask = async (statement) => {
    try {
      return await statement;
    } catch (error) {
      if (!lost.test(error.code) && !busy.test(error.code)) throw error;
      throw new DatabaseAway("the database does not answer", { cause: error });
    }
  };

  return {
    /** All of them, the newest first. */
    async list() {
      const rows = await ask(sql`select id, title, done, revision, created_at from todo order by created_at desc, id`);
      return rows.map(asTodo);
    },
    /** The todo, also when it was added before by the same id; null when there is no room for another. */
    async add({ id, title }) {
      const [added] = await ask(sql`
        insert into todo (id, title) select ${id}::uuid, ${title} where (select count(*) from todo) < ${todosMax}
        on conflict (id) do nothing returning id, title, done, revision, created_at`);
      if (added !== undefined) return asTodo(added);
      const [there] = await ask(sql`select id, title, done, revision, created_at from todo where id = ${id}`);
      return there === undefined ? null : asTodo(there);
    },
    /** The todo as it is then; null when it is gone. */
    async change(id, fields) {
      const [row] = await ask(sql`
        update todo set ${sql(fields)}, revision = revision + 1 where id = ${id}
        returning id, title, done, revision, created_at`);
      return row === undefined ? null : asTodo(row);
    },
    /** Its id with the number of its last change; null when it is gone already. */
    async remove(id) {
      const [row] = await ask(sql`delete from todo where id = ${id} returning id, revision + 1 as revision`);
      return row === undefined ? null : { id: row.id, revision: row.revision };
    },
  };
}

const asTodo = ({ created_at, ...rest }) => ({ ...rest, createdAt: created_at.toISOString() });
