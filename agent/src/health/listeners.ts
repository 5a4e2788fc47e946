import { readFile } from "node:fs/promises";
import { type Listener, parseListeners } from "./listening.ts";

/** The listening sockets in the network of a process; null when the kernel does not show them to us. */
export async function listenersOf(pid: number): Promise<Listener[] | null> {
  const tables = await Promise.all(["tcp", "tcp6"].map((name) => readTable(`/proc/${pid}/net/${name}`)));
  return tables.every((table) => table === "") ? null : tables.flatMap(parseListeners);
}

async function readTable(path: string): Promise<string> {
  try {
    return await readFile(path, "utf8");
  } catch {
    return "";
  }
}
