import type { Transport } from "@connectrpc/connect";
import type { Link } from "../link.ts";

/** A link without TLS, to a control that has one replica. */
export const linkOver = (transport: Transport): Link => ({
  session: transport,
  bulk: transport,
  replicas: () => ["control"],
  connectTo: () => ({ transport, close: () => {} }),
  endSession: () => {},
  close: () => {},
});
