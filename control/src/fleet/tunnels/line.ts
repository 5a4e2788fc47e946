import type { Duplex } from "node:stream";
import type { Tunnels, TunnelTarget } from "./tunnels.ts";

/** The tunnel as a line: the signal bounds the opening alone, and whoever has the line ends it. Rejects as `Tunnels.open`. */
export const lineOpener =
  ({ open }: Pick<Tunnels, "open">) =>
  async (target: TunnelTarget, signal: AbortSignal): Promise<Duplex> => {
    const opening = new AbortController();
    const giveUp = () => opening.abort(signal.reason);
    if (signal.aborted) giveUp();
    signal.addEventListener("abort", giveUp, { once: true });
    try {
      return await open(target, opening.signal);
    } finally {
      signal.removeEventListener("abort", giveUp);
    }
  };
