import postgres from "postgres";
import { check } from "./checks.js";

await check({
  engine: "postgres",
  mark: (index) => `$${index + 1}`,
  codeOf: (error) => error.code,
  async connect(url) {
    const sql = postgres(url, { max: 1, onnotice: () => {} });
    try {
      await sql`select 1`;
    } catch (error) {
      await sql.end();
      throw error;
    }
    // Nothing of these leaves its one connection, which is what a transaction needs.
    const run = (text, values = []) => sql.unsafe(text, values).values();
    return {
      run,
      prepared: (text, values) => sql.unsafe(text, values, { prepare: true }).values(),
      async cancel(sleep, isAsleep) {
        const query = sql.unsafe(sleep).execute();
        query.catch(() => {});
        await isAsleep();
        query.cancel();
        await query;
      },
      end: () => sql.end(),
    };
  },
});
