import { isLoopback, parseSockets } from "./sockets.ts";

/** A listening TCP socket inside a container. */
export interface Listener {
  port: number;
  isLoopback: boolean;
}

const listen = "0A";

/** The listeners in the text of `/proc/<pid>/net/tcp` or `tcp6`. */
export const parseListeners = (table: string): Listener[] =>
  parseSockets(table)
    .filter(({ state }) => state === listen)
    .map(({ port, address }) => ({ port, isLoopback: isLoopback(address) }));

/** Why nobody outside can reach the app, or null when its sockets do not explain it. */
export function explainListeners(listeners: readonly Listener[], port: number): string | null {
  const onPort = listeners.filter((listener) => listener.port === port);
  if (onPort.some((listener) => !listener.isLoopback)) return null;
  if (onPort.length > 0) {
    return `It listens on 127.0.0.1:${port}, which only the container itself can reach. Make it listen on 0.0.0.0:${port}.`;
  }
  // Docker's resolver listens on a loopback port of its own in every container.
  const others = [...new Set(listeners.filter((one) => !one.isLoopback).map((one) => one.port))].sort((a, b) => a - b);
  if (others.length === 0) return `Nothing listens on port ${port} in the container.`;
  return `It listens on port ${others.join(", ")} instead of ${port}, which the PORT variable names. Make it use PORT, or set the port in the manifest.`;
}
