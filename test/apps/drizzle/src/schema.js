import { pgTable, serial, text } from "drizzle-orm/pg-core";

export const plants = pgTable("plants", {
  id: serial().primaryKey(),
  name: text().notNull(),
});
