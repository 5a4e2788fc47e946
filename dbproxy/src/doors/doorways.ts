import type { Entrances } from "@svc/proto/entrances";
import type { EntranceListeners } from "../entrances/entrances.ts";
import type { Log } from "../log.ts";
import type { CredentialStore } from "../peers/credentials.ts";
import type { PeerListener } from "../peers/listener.ts";
import type { TableIndex } from "../table/lookup.ts";
import type { BridgeListeners } from "./bridges.ts";
import type { CopyDoors } from "./copy-doors.ts";

/** Every address at which this process listens for apps, for keepers of copies, for edges, and for other proxies. */
export interface Doorways extends AsyncDisposable {
  /** Listens where the table says. False while an address is not there, or the certificate: then it has to be called again. */
  follow(index: TableIndex, entrances: Entrances | null): Promise<boolean>;
  /** Takes no new connection from now on; those that are there go on. */
  close(): Promise<void>;
}

/** @param listenForPeers null where no other machine is listened for */
export function createDoorways(options: {
  bridges: BridgeListeners;
  copies: CopyDoors;
  edges: EntranceListeners;
  credentials: CredentialStore;
  listenForPeers: ((own: NonNullable<ReturnType<CredentialStore["current"]>>) => Promise<PeerListener>) | null;
  log: Log;
}): Doorways {
  const { bridges, copies, edges, credentials, listenForPeers, log } = options;
  let peers: PeerListener | null = null;
  let isClosed = false;
  credentials.onChange((next) => {
    peers?.use(next);
    edges.use(next);
  });

  /** That other machines cannot come is no reason to keep this one's apps out. */
  async function openToPeers(): Promise<boolean> {
    if (listenForPeers === null || peers !== null) return true;
    const own = credentials.current();
    if (own === null) return false;
    try {
      peers = await listenForPeers(own);
      return true;
    } catch (err) {
      log.error({ err }, "cannot listen for the proxies of other machines");
      return false;
    }
  }
  async function close(): Promise<void> {
    isClosed = true;
    edges.close();
    await Promise.all([bridges.close(), copies.close()]);
    peers?.close();
  }
  return {
    async follow(index, entrances) {
      if (isClosed) return true;
      const areThere = [
        ...[await bridges.follow(index), await copies.follow(index)],
        ...[await edges.follow(entrances), await openToPeers()],
      ];
      // It may have been told to close meanwhile.
      if (isClosed) await close();
      return areThere.every(Boolean);
    },
    close,
    async [Symbol.asyncDispose]() {
      await close();
      await Promise.all([peers?.[Symbol.asyncDispose](), edges[Symbol.asyncDispose]()]);
    },
  };
}
