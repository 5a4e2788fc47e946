import pg from "pg";
import { check } from "./checks.js";

await check({
  engine: "postgres",
  mark: (index) => `$${index + 1}`,
  codeOf: (error) => error.code,
  async connect(connectionString) {
    const client = new pg.Client({ connectionString });
    client.on("error", () => {});
    await client.connect();
    const run = async (text, values) => (await client.query({ text, values, rowMode: "array" })).rows;
    return {
      run,
      prepared: async (text, values) => (await client.query({ name: text.slice(0, 40), text, values, rowMode: "array" })).rows,
      async cancel(sleep, isAsleep) {
        const query = new pg.Query(sleep);
        const ended = new Promise((resolve, reject) => query.on("end", resolve).on("error", reject));
        ended.catch(() => {});
        client.query(query);
        await isAsleep();
        new pg.Client({ connectionString }).cancel(client, query);
        await ended;
      },
      end: () => client.end(),
    };
  },
});
