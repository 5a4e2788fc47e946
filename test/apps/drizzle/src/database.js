import { drizzle } from "drizzle-orm/node-postgres";
import pg from "pg";

export const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL });
// A connection that is lost while nobody uses it is made anew with the next query.
pool.on("error", (error) => console.error(error.message));
export const database = drizzle(pool);
