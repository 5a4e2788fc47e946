import type { Socket } from "node:net";
import type { DatabaseEngine } from "@svc/proto/database";
import type { House } from "./doors/visit.ts";
import type { Log } from "./log.ts";
import { visitMariadb } from "./mariadb/visit.ts";
import { visitPostgres } from "./postgres/visit.ts";

const visits = { postgres: visitPostgres, mariadb: visitMariadb };

/** Everybody who has come in by a bridge. Disposing it sends them away. */
export interface Visitors extends Disposable {
  /** Serves a client to its end, in the words of the engine at whose port it came in. */
  welcome(engine: DatabaseEngine, bridge: string, client: Socket): void;
}

export function createVisitors(house: House, log: Log): Visitors {
  const clients = new Set<Socket>();
  return {
    welcome(engine, bridge, client) {
      const over = new AbortController();
      clients.add(client);
      client.once("close", () => {
        clients.delete(client);
        over.abort();
      });
      visits[engine]({ house, engine, bridge, client, gone: over.signal }).catch((err: unknown) => {
        log.error({ err, engine, bridge }, "a connection failed");
        client.destroy();
      });
    },
    [Symbol.dispose]() {
      for (const client of clients) client.destroy();
    },
  };
}
