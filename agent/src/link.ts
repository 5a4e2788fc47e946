import type { Transport } from "@connectrpc/connect";
import type { Clock } from "@svc/runtime/clock";
import { createTransport, type Endpoints, type Identity, type LinkTransport, onlyEndpoint } from "@svc/uplink";

/** How the agent reaches control. */
export interface Link {
  session: Transport;
  /** For logs, samples and the like. */
  bulk: Transport;
  /** Every replica of control, the one in use first. */
  replicas(): string[];
  /** A connection of its own to one replica: what goes over it holds up nothing else, and outlives this link. */
  connectTo(replica: string): LinkTransport;
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
      replicas: endpoints.all,
      connectTo: (replica) => createTransport(clock, identity, onlyEndpoint(replica)),
      endSession: session.close,
      close() {
        session.close();
        bulk.close();
      },
    };
  };
