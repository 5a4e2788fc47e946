import type { Socket } from "node:net";
import type { DatabaseEngine } from "@svc/proto/database";
import { visitForCopy } from "./doors/keeper-visit.ts";
import type { House } from "./doors/visit.ts";
import type { Log } from "./log.ts";
import { visitMariadb } from "./mariadb/visit.ts";
import { visitPostgres } from "./postgres/visit.ts";

const visits = { postgres: visitPostgres, mariadb: visitMariadb };

/** Everybody who has come in by a bridge or a door. Disposing it sends them away. */
export interface Visitors extends Disposable {
  /** Serves a client to its end, in the words of the engine at whose port it came in. */
  welcome(engine: DatabaseEngine, bridge: string, client: Socket): void;
  /** Serves a keeper to its end, who came in by the door at that path. */
  welcomeKeeper(path: string, keeper: Socket): void;
}

export function createVisitors(house: House, log: Log): Visitors {
  const clients = new Set<Socket>();
  function serve(client: Socket, fields: object, visit: (gone: AbortSignal) => Promise<void>): void {
    const over = new AbortController();
    clients.add(client);
    client.once("close", () => {
      clients.delete(client);
      over.abort();
    });
    visit(over.signal).catch((err: unknown) => {
      log.error({ err, ...fields }, "a connection failed");
      client.destroy();
    });
  }
  return {
    welcome(engine, bridge, client) {
      serve(client, { engine, bridge }, (gone) => visits[engine]({ house, engine, bridge, client, gone }));
    },
    welcomeKeeper(path, keeper) {
      serve(keeper, { path }, (gone) => visitForCopy(house, path, keeper, gone));
    },
    [Symbol.dispose]() {
      for (const client of clients) client.destroy();
    },
  };
}
