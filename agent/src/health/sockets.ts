import { readFile } from "node:fs/promises";

/** The TCP sockets in the network of a process, as the kernel prints them; null when it does not show them to us. */
export type TcpTables = (pid: number) => Promise<string[] | null>;

export async function tcpTablesOf(pid: number): Promise<string[] | null> {
  const tables = await Promise.all(["tcp", "tcp6"].map((name) => readTable(`/proc/${pid}/net/${name}`)));
  return tables.every((table) => table === "") ? null : tables;
}

async function readTable(path: string): Promise<string> {
  try {
    return await readFile(path, "utf8");
  } catch {
    return "";
  }
}

/** A socket of a table: `state` is the kernel's number for it, addresses are its hexadecimal digits. */
export interface Socket {
  address: string;
  port: number;
  remoteAddress: string;
  state: string;
}

/** The sockets in the text of `/proc/<pid>/net/tcp` or `tcp6`. */
export function parseSockets(table: string): Socket[] {
  const found: Socket[] = [];
  for (const line of table.split("\n").slice(1)) {
    const [, local, remote, state] = line.trim().split(/\s+/);
    const [address = "", port = ""] = (local ?? "").split(":");
    const [remoteAddress = ""] = (remote ?? "").split(":");
    if (state === undefined || port === "") continue;
    found.push({ address, port: Number.parseInt(port, 16), remoteAddress, state });
  }
  return found;
}

/** The kernel prints each 32-bit word in the byte order of the machine, little-endian on all we support. */
export function isLoopback(hex: string): boolean {
  const isMapped = hex.startsWith("0000000000000000FFFF0000");
  if (hex.length === 8 || isMapped) return hex.slice(-2).toUpperCase() === "7F";
  return hex.toUpperCase() === "00000000000000000000000001000000";
}
