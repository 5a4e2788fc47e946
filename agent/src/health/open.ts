import { isLoopback, parseSockets, type TcpTables } from "./sockets.ts";

/** Of the kernel's numbers: open on both ends, or closed by the app with an answer still on its way. */
const served = new Set(["01", "04", "05"]);

/**
 * How many connections to an app are open by the text of `/proc/<pid>/net/tcp` or `tcp6`: those to its port that come
 * from outside of its container. One that its visitor has closed is none any more.
 */
export const countOpen = (table: string, port: number): number =>
  parseSockets(table).filter(
    (socket) => socket.port === port && served.has(socket.state) && !isLoopback(socket.remoteAddress),
  ).length;

/**
 * Whether anybody has a connection to the app at `port` of the container whose first process is `pid`. What the kernel does
 * not tell is not taken for silence, nor is a process that the engine did not name (null).
 */
export async function hasOpen(tcpTables: TcpTables, pid: number | null, port: number): Promise<boolean> {
  const tables = pid === null ? null : await tcpTables(pid);
  return tables === null || tables.some((table) => countOpen(table, port) > 0);
}
