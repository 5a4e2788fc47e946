import type { Transport } from "@connectrpc/connect";
import type { Clock } from "@svc/runtime/clock";
import { createTransport, type Endpoints, type Identity } from "@svc/uplink";

/** How the agent reaches control. */
export interface Link {
  session: Transport;
  /** For logs, samples and the like. */
  bulk: Transport;
  /** Ends the session; calls on `bulk` go on. */
  endSession(): void;
  close(): void;
}

/** Links by mutual TLS, to whichever of the endpoints answers. */
export const mutualTls =
  (clock: Clock, endpoints: Endpoints) =>
  (identity: Identity): Link => {
    const session = createTransport(clock, identity, endpoints);
    const bulk = createTransport(clock, identity, endpoints);
    return {
      session: session.transport,
      bulk: bulk.transport,
      endSession: session.close,
      close() {
        session.close();
        bulk.close();
      },
    };
  };
