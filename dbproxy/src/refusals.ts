// @pure
import type { DatabaseProxyRefusal } from "@svc/proto/database-proxy";

/** Why a client gets no connection. */
export type Refusal = DatabaseProxyRefusal | "user" | "database" | "malformed" | "unsupported";

export interface RefusalText {
  message: string;
  /** SQLSTATE of Postgres. */
  postgres: string;
  /** Number and SQLSTATE of MariaDB. */
  mariadb: { number: number; state: string };
}

const busy = { number: 1040, state: "08004" };
/** "Server shutdown in progress": drivers take the connection for lost, and open another. */
const gone = { number: 1053, state: "08S01" };

/** What each is in the engines' own words, so that drivers treat it as what it is: wrong for good, or worth another try. */
export const refusalTexts: Readonly<Record<Refusal, RefusalText>> = {
  user: {
    message: "this app has no database with such a user: take DATABASE_URL as it is",
    postgres: "28000",
    mariadb: { number: 1045, state: "28000" },
  },
  database: {
    message: "the user has no such database: take DATABASE_URL as it is",
    postgres: "3D000",
    mariadb: { number: 1044, state: "42000" },
  },
  malformed: {
    message: "the first message is not well formed",
    postgres: "08P01",
    mariadb: { number: 1043, state: "08S01" },
  },
  unsupported: {
    message: "the client asks for something that is not offered here",
    postgres: "0A000",
    mariadb: { number: 1235, state: "42000" },
  },
  away: { message: "the database is not reachable at present", postgres: "57P03", mariadb: gone },
  closed: { message: "the database is closed", postgres: "57P03", mariadb: gone },
  held: { message: "the database is being moved: try again", postgres: "57P03", mariadb: gone },
  limit: { message: "too many connections to the database", postgres: "53300", mariadb: busy },
  rate: { message: "too many new connections to the database in a short time", postgres: "53300", mariadb: busy },
};
