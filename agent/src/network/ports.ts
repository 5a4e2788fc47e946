import { createServer } from "node:net";

const ATTEMPTS = 200;

/** Hands out host ports that nobody listens on. */
export type Ports = {
  /** Reserved until it is given back or the reservation ends by itself. */
  take(): Promise<number>;
};

/**
 * Free ports of `address` within a range. A port is tried by listening on it for a moment; two takes close
 * together never get the same one. Somebody else may still be faster: then the start fails and another is taken.
 */
export function createPorts(address: string, range: { first: number; last: number }): Ports {
  const recent: number[] = [];
  const size = range.last - range.first + 1;
  return {
    async take() {
      for (let attempt = 0; attempt < ATTEMPTS; attempt += 1) {
        const port = range.first + Math.floor(Math.random() * size);
        if (recent.includes(port) || !(await isFree(address, port))) continue;
        recent.push(port);
        if (recent.length > Math.min(100, size / 2)) recent.shift();
        return port;
      }
      throw new Error(`no free port found in ${range.first}-${range.last} on ${address}`);
    },
  };
}

function isFree(address: string, port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once("error", () => resolve(false));
    server.listen(port, address, () => server.close(() => resolve(true)));
  });
}
